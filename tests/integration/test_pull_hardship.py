"""Pulls that meet a full disk, each other, a limit, or what is here: real CLI and daemon, a registry over loopback."""

import hashlib
import http.client
import json
import os
import re
import subprocess
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.integration.test_pull import (
    CONTENT,
    FILE,
    NAME,
    REPO,
    assert_sound,
    data,
    file,
    lines,
    models_on_disk,
    names,
    post,
    registry,
    shell,
)
from tests.support.raw_gguf import gguf_bytes
from tests.support.shell import BLAZAR, Shell
from tests.support.waiting import until

__all__ = ["file", "registry", "shell"]

KEPT = (r"cannot write .*: No space left on device; free some space, or choose another `--data-dir`; what has come is "
        r"kept, ask again to go on")


@pytest.fixture
def small_home(shell):
    """The data dir is a file system of 4 MiB."""
    folder = data(shell)
    folder.mkdir(parents=True)
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder]).returncode != 0:
        pytest.skip("only the superuser can become another user who mounts")
    try:
        yield folder
        shell.stop()
    finally:
        subprocess.run(["umount", folder], check=True)


def fill(folder: Path) -> Path:
    """Somebody else's file that leaves no room."""
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    return filler


def start_pull(shell: Shell) -> "subprocess.Popen[str]":
    return subprocess.Popen([*BLAZAR, "pull", REPO], env=shell.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def partial(shell: Shell) -> Path | None:
    return next(data(shell).glob("models/partial/*/*.part"), None)


def has_some(shell: Shell) -> bool:
    part = partial(shell)
    return part is not None and part.stat().st_size > len(CONTENT) // 4


def test_a_disk_that_fills_up_meanwhile_keeps_what_has_come(shell, small_home, file, registry):
    file.held = threading.Event()
    process = start_pull(shell)
    until(lambda: has_some(shell), 20, "some of the file")
    filler = fill(small_home)
    file.held.set()
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1 and re.search(KEPT, errors)
    again = shell("pull", REPO)
    assert again.returncode == 1 and re.search(r"the model needs .* more and .* are free; free some", again.stderr)
    file.held = None
    filler.unlink()
    before = registry.sent(REPO, FILE)
    shell.ok("pull", REPO)
    assert registry.sent(REPO, FILE) - before < len(CONTENT) * 3 // 4
    assert_sound(shell)


def test_the_daemon_tells_of_a_full_disk_too(shell, small_home, file, registry):
    shell.start()
    file.held = threading.Event()
    answer = post(shell, {"model": REPO})
    until(lambda: has_some(shell), 20, "some of the file")
    filler = fill(small_home)
    file.held.set()
    assert re.search(KEPT, lines(answer)[-1]["error"])
    file.held = None
    filler.unlink()
    before = registry.sent(REPO, FILE)
    assert lines(post(shell, {"model": REPO}))[-1] == {"status": "success"}
    assert registry.sent(REPO, FILE) - before < len(CONTENT) * 3 // 4
    assert any(NAME in line for line in names(shell))
    assert_sound(shell)


@pytest.mark.parametrize("first", ["daemon", "terminal"])
def test_the_daemon_and_a_terminal_share_one_download(shell, file, registry, first):
    shell.start()
    file.held = threading.Event()
    if first == "daemon":
        answer = post(shell, {"model": REPO})
        until(lambda: registry.sent(REPO, FILE) > 0, 20, "the download")
        process = start_pull(shell)
        until(lambda: "follows" in process.stderr.readline(), 20, "the second one's words")
    else:
        process = start_pull(shell)
        until(lambda: registry.sent(REPO, FILE) > 0, 20, "the download")
        answer = post(shell, {"model": REPO})
        until(lambda: "follows" in answer.readline().decode(), 20, "the second one's words")
    file.held.set()
    assert lines(answer)[-1] == {"status": "success"}
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0 and NAME in out
    assert registry.sent(REPO, FILE) == len(CONTENT)
    assert any(NAME in line for line in names(shell))
    assert_sound(shell)


def test_pulls_at_once_share_one_limit(shell, file, registry):
    """Of two files of 1.5 MB the first MB comes at once; the other two take a second each."""
    registry.add("o/other", {"Other-Q8_0.gguf": gguf_bytes({"general.file_type": 7}, elements=400_000, fill=b"o")})
    shell.env["BLAZAR_DOWNLOAD_SPEED_LIMIT_MB"] = "1"
    shell.start()
    began = time.monotonic()
    answers = [post(shell, {"model": name}) for name in (REPO, "o/other")]
    assert [lines(answer)[-1] for answer in answers] == [{"status": "success"}] * 2
    assert 1.8 < time.monotonic() - began < 10


def test_delete_frees_only_what_no_other_model_needs(shell, registry):
    """Two repositories with the same projector."""
    projector = gguf_bytes({"general.architecture": "clip", "general.type": "mmproj"}, elements=100)
    models = {name: gguf_bytes({"general.file_type": 7}, elements=100, fill=name[-1:].encode())
              for name in ("o/one", "o/two")}
    for name, model in models.items():
        registry.add(name, {"m-Q8_0.gguf": model, "mmproj-F16.gguf": projector})
    shell.start()
    for name in models:
        assert lines(post(shell, {"model": name}))[-1] == {"status": "success"}
    blobs = {what: f"blobs/{hashlib.sha256(content).hexdigest()}.gguf"
             for what, content in (*models.items(), ("projector", projector))}
    assert models_on_disk(shell) == set(blobs.values()) and registry.sent("o/two", "mmproj-F16.gguf") == 0
    assert delete(shell, "o/one") == 200
    assert models_on_disk(shell) == {blobs["o/two"], blobs["projector"]}
    assert delete(shell, "o/one") == 404
    assert delete(shell, "o/two:q8_0") == 200 and models_on_disk(shell) == set()


def delete(shell: Shell, name: str) -> int:
    connection = http.client.HTTPConnection(urlsplit(shell.url).netloc, timeout=30)
    connection.request("DELETE", "/api/delete", json.dumps({"model": name}))
    return connection.getresponse().status


def test_the_name_of_a_pull_works_in_a_daemon_that_runs(shell, registry):
    """What is pulled by another name of the catalog answers to that too, also when its file was here before."""
    registry.add("unsloth/Qwen3-8B-GGUF", {"Qwen3-8B-Q8_0.gguf": CONTENT})
    shell.start()
    shell.ok("pull", "qwen3-8b")
    for name in ("qwen3:8b", "qwen3"):
        assert shell.ok("pull", name) == "qwen3-8b:q8_0 is installed already\n"
        assert "qwen3:8b" in shell.ok("show", name)
    assert shell.ok("rm", "qwen3") == ("removed qwen3, another name for qwen3-8b:q8_0, which stays; "
                                       "`blazar rm qwen3-8b:q8_0` removes that too\n")
    assert shell.ok("rm", "qwen3-8b") == "removed qwen3-8b\n" and models_on_disk(shell) == set()
    assert shell("show", "qwen3:8b").returncode == 1
