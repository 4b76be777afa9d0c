"""Pulling with the real CLI, the real daemon and Ollama's own clients, from a registry over loopback."""

import contextlib
import hashlib
import http.client
import json
import os
import pty
import re
import select
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import pytest

from blazar.store.locks import try_lock
from tests.integration.test_npm_clients import SCRIPTS
from tests.servers.registry import Registry
from tests.support.needs import need_javascript_clients
from tests.support.raw_gguf import gguf_bytes
from tests.support.shell import BLAZAR, Shell
from tests.support.stub_model import EMBEDDING, write_header
from tests.support.waiting import until

REPO, NAME, FILE = "Owner/Tiny-GGUF", "owner/tiny-gguf:q8_0", "Tiny-Q8_0.gguf"
CONTENT = gguf_bytes({"general.name": "tiny", "general.file_type": 7}, elements=400_000, fill=b"w")
SHA256 = hashlib.sha256(CONTENT).hexdigest()
KILLS = int(os.environ.get("PULL_KILLS", "8"))
"""How often a pull is killed in the test of that."""


@pytest.fixture(scope="module")
def registry():
    with Registry() as running:
        yield running


@pytest.fixture
def file(registry):
    """The switches of the one file there is, all off again for each test."""
    registry.add(REPO, {FILE: CONTENT})
    registry.server.requests.clear()
    registry.store.requests.clear()
    return registry.file(REPO, FILE)


@pytest.fixture
def shell(tmp_path, registry, file):
    shell = Shell(tmp_path)
    shell.env["BLAZAR_REGISTRY_BASE"] = registry.base
    yield shell
    shell.stop()


def data(shell: Shell) -> Path:
    return shell.home / ".local" / "share" / "blazar"


def models_on_disk(shell: Shell) -> set[str]:
    folder = data(shell) / "models"
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def assert_sound(shell: Shell) -> None:
    assert models_on_disk(shell) == {f"blobs/{SHA256}.gguf"}
    assert (data(shell) / "models" / "blobs" / f"{SHA256}.gguf").read_bytes() == CONTENT
    with contextlib.closing(sqlite3.connect(data(shell) / "blazar.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# -- the command line --------------------------------------------------------------------------------------------


def test_in_a_pipe_there_are_plain_lines(shell):
    done = shell("pull", REPO)
    assert done.stdout == f'installed {NAME}; try it with `blazar run {NAME} "Hello"`\n'
    assert done.stderr == "blazar: took q8_0 (1.5 MiB), the only build there is\n"
    assert shell.ok("pull", f"hf.co/{REPO}:Q8_0") == f"{NAME} is installed already\n"
    assert json.loads(shell.ok("pull", REPO, "--json"))["digest"] == SHA256
    assert_sound(shell)


def test_what_a_model_that_embeds_is_good_for(shell, tmp_path):
    file = write_header(tmp_path / "e.gguf", "embedder", architecture=EMBEDDING)
    assert shell.ok("pull", str(file)) == "installed embedder:f32; it embeds texts: `/v1/embeddings` and `/api/embed`\n"


def test_on_a_terminal_there_is_one_moving_line(shell, file):
    file.rate = 3e6
    parent, child = pty.openpty()
    process = subprocess.Popen([*BLAZAR, "pull", REPO], env=shell.env, stdin=child, stdout=child, stderr=child)
    os.close(child)
    shown = b""
    while select.select([parent], [], [], 30)[0]:
        try:
            shown += os.read(parent, 65536)
        except OSError:  # how Linux tells that the other side is closed
            break
    os.close(parent)
    assert process.wait(20) == 0
    text = shown.decode()
    download = next(line for line in text.split("\r\n") if "download" in line)
    drawings = [part for part in download.split("\r\x1b[K") if part]
    assert len(drawings) >= 3 and all(re.match(r"download  \[[#.]*\] +\d+ %  ", part) for part in drawings)
    shares = [int(re.search(r"(\d+) %", part)[1]) for part in drawings]
    assert shares == sorted(shares)
    assert text.split("\r\n")[0] == "blazar: took q8_0 (1.5 MiB), the only build there is"
    assert f"installed {NAME}" in text


def test_ctrl_c_keeps_what_has_come(shell, file, registry):
    file.held = threading.Event()
    process = subprocess.Popen([*BLAZAR, "pull", REPO], env=shell.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    until(lambda: registry.sent(REPO, FILE) >= len(CONTENT) // 2, 20, "half of the file")
    time.sleep(0.3)  # what the server has put on the wire is to be read by the client
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    file.held.set()
    assert process.returncode == 130 and errors.splitlines()[1:] == [
        "blazar: what has come is kept; the same command goes on from there"]
    file.held = None
    before = registry.sent(REPO, FILE)
    shell.ok("pull", REPO)
    assert registry.sent(REPO, FILE) - before < len(CONTENT) * 3 // 4
    assert_sound(shell)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder]).returncode != 0:
        pytest.skip("only the superuser can become another user who mounts")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_disk_that_is_too_small_is_told_before_anything_comes(shell, small_disk, registry):
    done = shell("pull", REPO, "--data-dir", str(small_disk))
    assert done.returncode == 1 and re.search(
        r"cannot write .*/models: the model needs 1.5 MiB more and .* are free; free some space, or choose another "
        "`--data-dir`", done.stderr)
    assert registry.store.requests == [] and not [path for path in (small_disk / "models").rglob("*") if path.is_file()]


def test_the_catalog_is_listed(shell):
    listed = shell.ok("pull")
    assert re.search(r"^qwen3-8b +qwen3, qwen3:8b +Qwen3 8B", listed, re.MULTILINE) and "smollm2-135m:q4_1" in listed
    assert len(json.loads(shell.ok("pull", "--json"))) > 20


@pytest.mark.parametrize(("reference", "env", "code", "words"), [
    ("o/none", {}, 1, "shows no model o/none; check how it is spelled, or, when it is private, set BLAZAR_REGISTRY"),
    ("quen3-8b", {}, 1, "did you mean qwen3-8b"), (f"{REPO}:q2_k", {}, 1, f"{REPO} has no build q2_k; it has Q8_0"),
    (REPO, {"BLAZAR_OFFLINE": "1"}, 1, f"{REPO} would have to be downloaded, and BLAZAR_OFFLINE is set"),
    (REPO, {"HF_HUB_OFFLINE": "1"}, 1, f"{REPO} would have to be downloaded, and HF_HUB_OFFLINE is set"),
    (REPO, {"BLAZAR_REGISTRY_BASE": "http://127.0.0.1:9"}, 1, "http://127.0.0.1:9 cannot be asked for"),
    (REPO, {"BLAZAR_REGISTRY_BASE": "nonsense"}, 2, "BLAZAR_REGISTRY_BASE"),
    ("http://example.org/x.gguf", {}, 1, "use https://")])
def test_what_a_person_reads_when_it_cannot_be(shell, reference, env, code, words):
    done = shell("pull", reference, **env)
    assert done.returncode == code and words in done.stderr and not done.stdout
    assert models_on_disk(shell) == set()


@pytest.mark.debian
def test_a_kill_at_any_byte_leaves_what_the_next_pull_finishes(shell, file, registry):
    """The whole process group is killed as soon as so many bytes are on the wire; the seed is told on failure."""
    seed = int.from_bytes(os.urandom(4), "big")
    random = Random(seed)
    for kill in range(KILLS):
        offset = random.randrange(len(CONTENT))
        file.rate = 6e6
        before = registry.sent(REPO, FILE)
        process = subprocess.Popen([*BLAZAR, "pull", REPO], env=shell.env, start_new_session=True,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while registry.sent(REPO, FILE) - before < offset and process.poll() is None:
            time.sleep(0.001)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        file.rate = None
        shell.ok("pull", REPO)
        assert models_on_disk(shell) == {f"blobs/{SHA256}.gguf"}, f"seed {seed}, kill {kill} at {offset}"
        assert_sound(shell)
        shell.ok("rm", NAME)


# -- through the daemon ------------------------------------------------------------------------------------------


def post(shell: Shell, body: object, key: str = "") -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(urlsplit(shell.url).netloc, timeout=30)
    connection.request("POST", "/api/pull", json.dumps(body), {"Authorization": f"Bearer {key}"} if key else {})
    return connection.getresponse()


def is_free(folder: Path) -> bool:
    """Whether nobody works in a download's folder."""
    lock = try_lock(folder)
    if lock is not None:
        os.close(lock)
    return lock is not None


def lines(answer: http.client.HTTPResponse) -> list[dict]:
    return [json.loads(line) for line in answer.read().splitlines()]


def names(shell: Shell) -> list[str]:
    return shell.ok("list").splitlines()[1:]


def test_the_daemon_pulls_with_progress(shell, file, registry):
    shell.start()
    file.rate = 3e6
    answer = post(shell, {"model": REPO})
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/x-ndjson")
    told = lines(answer)
    assert [line["status"] for line in told if "digest" not in line] == [
        "pulling manifest", "took q8_0 (1.5 MiB), the only build there is", "verifying sha256 digest",
        "writing manifest", "success"]
    pulling = [line for line in told if "digest" in line]
    assert {(line["status"], line["digest"], line["total"]) for line in pulling} == {
        (f"pulling {SHA256[:12]}", f"sha256:{SHA256}", len(CONTENT))}
    done = [line.get("completed", 0) for line in pulling]
    assert done == sorted(done) and len(set(done)) >= 3
    assert any(NAME in line for line in names(shell)), "it is there before success is told"
    whole = post(shell, {"name": f"hf.co/{REPO}:Q8_0", "stream": False})
    assert (whole.status, json.loads(whole.read())) == (200, {"status": "success"})
    assert registry.sent(REPO, FILE) == len(CONTENT)
    assert_sound(shell)


def test_the_daemon_says_why_not(shell, registry):
    registry.add("o/gated", {FILE: CONTENT}, token="t", gated=True)
    shell.start()
    gated = f"o/gated is gated: accept its terms at {registry.base}/o/gated"
    assert lines(post(shell, {"model": "o/gated"}))[-1]["error"].startswith(gated)
    whole = post(shell, {"model": "o/gated", "stream": False})
    assert whole.status == 403 and json.loads(whole.read())["error"].startswith(gated)
    for body, words in (({}, "`model` is missing"), ({"model": "../x"}, "not a model name"), ({"model": 7}, "must be"),
                        ({"model": REPO, "stream": "yes"}, "`stream` must be true or false"),
                        ({"model": REPO, "insecure": True}, "certificates are always checked")):
        refused = post(shell, body)
        assert refused.status == 400 and words in json.loads(refused.read())["error"]
    for reference in (str(shell.home / "x.gguf"), "file:///etc/passwd", "http://127.0.0.1:1/x.gguf"):
        assert post(shell, {"model": reference, "stream": False}).status == 400
    assert models_on_disk(shell) == set()


def test_a_client_that_leaves_cancels_its_pull_and_the_next_one_goes_on(shell, file, registry):
    shell.start()
    file.held = threading.Event()
    answer = post(shell, {"model": REPO})
    until(lambda: registry.sent(REPO, FILE) >= len(CONTENT) // 2, 20, "half of the file")
    until(lambda: json.loads(answer.readline()).get("completed", 0) > len(CONTENT) // 4, 20, "progress")
    answer.close()
    folder = next((data(shell) / "models" / "partial").iterdir())
    until(lambda: is_free(folder), 20, "the end of the pull")
    assert any(path.endswith(".part") for path in models_on_disk(shell)) and names(shell) == []
    file.held.set()
    file.held = None
    before = registry.sent(REPO, FILE)
    assert lines(post(shell, {"model": REPO}))[-1] == {"status": "success"}
    assert registry.sent(REPO, FILE) - before < len(CONTENT)
    assert_sound(shell)


def test_two_clients_share_one_download(shell, file, registry):
    shell.start()
    file.held = threading.Event()
    first = post(shell, {"model": REPO})
    until(lambda: registry.sent(REPO, FILE) > 0, 20, "the first download")
    second = post(shell, {"model": REPO})
    until(lambda: "follows" in second.readline().decode(), 20, "the second one's words")
    file.held.set()
    assert lines(first)[-1] == lines(second)[-1] == {"status": "success"}
    assert registry.sent(REPO, FILE) == len(CONTENT)
    assert_sound(shell)


def test_a_key_that_may_use_one_model_pulls_no_other(shell):
    keys = '[[keys]]\nkey = "one"\nmodels = ["other"]\n[[keys]]\nkey = "all"\n'
    shell.config.write_text(shell.config.read_text() + keys)
    shell.start()
    assert post(shell, {"model": REPO}).status == 401
    assert post(shell, {"model": REPO}, key="one").status == 403
    assert lines(post(shell, {"model": REPO}, key="all"))[-1] == {"status": "success"}


def test_a_daemon_that_stops_ends_its_pulls_with_words(shell, file, registry):
    shell.start()
    file.held = threading.Event()
    answer = post(shell, {"model": REPO})
    until(lambda: registry.sent(REPO, FILE) > 0, 20, "the download")
    shell.daemon.send_signal(signal.SIGTERM)
    assert "what has come is kept" in lines(answer)[-1]["error"]
    file.held.set()
    shell.stop()


def test_the_python_client_of_ollama(shell, file):
    ollama = pytest.importorskip("ollama")
    shell.start()
    file.rate = 3e6
    client = ollama.Client(host=shell.url)
    parts = list(client.pull(f"hf.co/{REPO}:Q8_0", stream=True))
    assert (parts[0].status, parts[-1].status) == ("pulling manifest", "success")
    counted = [part for part in parts if part.digest]
    assert {part.digest for part in counted} == {f"sha256:{SHA256}"} and counted[-1].total == len(CONTENT)
    assert max(part.completed or 0 for part in counted) > len(CONTENT) // 2
    assert client.pull(REPO).status == "success"
    assert client.show(f"hf.co/{REPO}:Q8_0").details.quantization_level == "Q8_0"
    with pytest.raises(ollama.ResponseError, match="shows no model o/none"):
        list(client.pull("o/none", stream=True))
    with pytest.raises(ollama.ResponseError) as caught:
        client.pull("o/none")
    assert caught.value.status_code == 404


def test_the_javascript_client_of_ollama(shell, file):
    clients = need_javascript_clients()
    shell.start()
    file.rate = 3e6
    scripts = shutil.copytree(SCRIPTS, shell.home / "scripts")  # node looks for packages beside the script
    (scripts / "node_modules").symlink_to(clients)
    done = subprocess.run(["node", str(scripts / "ollama_pull.mjs"), shell.url, REPO, "o/none"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["parts"][0] == {"status": "pulling manifest"}
    assert told["parts"][-1] == told["whole"] == {"status": "success"}
    counted = [part for part in told["parts"] if "digest" in part]
    assert {part["total"] for part in counted} == {len(CONTENT)} and counted[-1]["completed"] > len(CONTENT) // 2
    assert "shows no model o/none" in told["refused"] and told["wholly"] == ["ResponseError", 404]
