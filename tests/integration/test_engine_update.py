"""`blazar engine update` and its kin against a release server: each fault, and what is left on disk.

The engines are real: the embedded one under llama-server's name, in archives that are really downloaded.
"""

import json
import os
import shutil
import subprocess
import threading

import pytest

from tests.servers.file_server import Reply
from tests.servers.releases import rate_limited
from tests.support.engine_builds import embedded, embedded_script, noise, tar, zipped
from tests.support.engine_shelf import engine_shell
from tests.support.shell import BLAZAR
from tests.support.waiting import until

REPO = "ggml-org/llama.cpp"


@pytest.fixture
def shell(tmp_path):
    with engine_shell(tmp_path) as shell:
        yield shell


@pytest.fixture
def with_b100(shell):
    """b100 is in use; whatever goes wrong later must leave it so."""
    shell.server.release("b100", {"cpu": embedded("b100")})
    shell.ok("engine", "update")
    shell.server.requests.clear()
    return shell


def refused(shell, *arguments, code=1, **env):
    done = shell(*arguments, **env)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    return done.stderr


def installed(shell, *options):
    """What `blazar engine list` tells of builds; it shows other engines of this machine too."""
    engines = json.loads(shell.ok("engine", "list", "--json", *options))
    return [engine for engine in engines if engine["installed_at"]]


def untouched(shell):
    assert shell.rows() == {"b100": True} and shell.folders() == {"b100"}
    assert "b100" in shell.ok("engine", "update", "--tag", "b100")


def test_the_first_update_and_what_it_says(shell):
    file = shell.server.release("b100", {"cpu": embedded("b100")})["cpu"]
    done = shell("engine", "update")
    assert done.stdout == "b100 (cpu) is in use now\n"
    host = shell.server.base.removeprefix("http://")
    assert done.stderr == (f"blazar: b100 (cpu), {len(file.content)} B from {host}\n"
                           "blazar: its speed is not compared: BLAZAR_ENGINE_GATE is off\n")
    assert shell.rows() == {"b100": True} and shell.folders() == {"b100"} and shell.leftovers() == set()
    assert shell.server.archive_bytes() == len(file.content)
    assert shell.ok("engine", "update") == "b100 (cpu) is in use already\n"
    assert shell.server.archive_bytes() == len(file.content)


def test_json(shell):
    shell.server.release("b100", {"cpu": embedded("b100")})
    assert json.loads(shell.ok("engine", "update", "--json")) == {
        "tag": "b100", "flavour": "cpu", "changed": True, "before": None, "removed": [],
        "tokens_per_second": {"old": None, "new": None}}
    (row,) = installed(shell)
    assert row["sha256"] == shell.server.releases[0]["assets"][0]["digest"].removeprefix("sha256:")
    assert row["source"] == f"release b100 of {REPO}" and row["active"] is True


def test_a_zip_and_a_folder_that_is_not_at_the_top(shell):
    shell.server.release("b100", {"cpu": zipped({"build/bin/llama-server": embedded_script()}, mode=0)}, form="zip")
    shell.ok("engine", "update")
    assert os.access(shell.data / "engines/b100/build/bin/llama-server", os.X_OK)


def test_the_runtime_of_a_cuda_build_comes_beside_it(shell):
    """The flavour is asked for, so that the test needs no GPU; the engine here does not link the libraries."""
    shell.config.write_text('engine_asset = "cuda"\n')
    files = shell.server.release(
        "b100", {"cuda-13.4": tar({"llama-b100/llama-server": embedded_script(), "llama-b100/libggml-cuda.so": b"1"})},
        runtimes={"cuda-13.4": tar({"cudart/lib/libcudart.so.13": b"2", "cudart/README": b"3"})})
    assert "b100 (cuda-13.4) is in use now" in shell.ok("engine", "update")
    home = shell.data / "engines/b100/llama-b100"
    assert {path.name for path in home.iterdir()} == {"llama-server", "libggml-cuda.so", "libcudart.so.13"}
    assert shell.server.archive_bytes() == sum(len(file.content) for file in files.values())


@pytest.mark.debian
def test_two_flavours_of_one_release(with_b100):
    with_b100.server.releases.clear()
    with_b100.server.release("b100", {"cpu": embedded("b100"), "vulkan": embedded("other")})
    with_b100.config.write_text('engine_asset = "vulkan"\n')
    assert with_b100.ok("engine", "update") == (
        "b100-vulkan (vulkan) is in use now; `blazar engine rollback` goes back to b100\n")
    assert with_b100.ok("engine", "update") == "b100-vulkan (vulkan) is in use already\n"
    with_b100.config.write_text('engine_asset = "cpu"\n')
    assert "b100 (cpu) is in use now" in with_b100.ok("engine", "update")


@pytest.mark.debian
def test_channels(with_b100):
    with_b100.server.release("b200", {"cpu": embedded("b200")})
    with_b100.server.stable("v0.6.0", "b100")
    line = "b100 (stable v0.6.0) is in use, and channel latest has b200: `blazar engine update`\n"
    done = with_b100("engine", "check")
    assert (done.returncode, done.stdout) == (5, line)
    assert line.strip() + " (as of " in with_b100("engine", "list").stderr
    with_b100.config.write_text('update_channel = "stable"\n')
    assert with_b100.ok("engine", "check") == "b100 (stable v0.6.0) is in use, which is current in channel stable\n"
    assert with_b100.ok("engine", "update") == "b100 (cpu) is in use already\n"
    with_b100.ok("engine", "update", "--tag", "b200")
    assert "b100 (cpu) is in use now" in with_b100.ok("engine", "update", "--tag", "v0.6.0")


def test_a_line_that_breaks_again_and_again(with_b100):
    file = with_b100.server.release("b200", {"cpu": tar({"l/llama-server": embedded_script(), "l/x": noise(400_000)})})
    file["cpu"].cut_every, file["cpu"].cuts = 100_000, 3
    with_b100.ok("engine", "update")
    assert with_b100.server.archive_bytes() == len(file["cpu"].content)
    assert len([seen for seen in with_b100.server.requests if seen.path.endswith(".tar.gz")]) == 4
    assert with_b100.rows() == {"b100": False, "b200": True}


def test_a_wrong_hash(with_b100):
    content = embedded("b200")
    with_b100.server.release("b200", {"cpu": content}, digest="wrong")
    words = refused(with_b100, "engine", "update")
    assert f"expected {'0' * 64}" in words
    assert with_b100.server.archive_bytes() == len(content)
    assert with_b100.leftovers() == set()
    untouched(with_b100)


def test_no_hash_at_all(with_b100):
    with_b100.server.release("b200", {"cpu": embedded("b200")}, digest="missing")
    assert refused(with_b100, "engine", "update").endswith(
        "blazar: llama-b200-bin-ubuntu-x64.tar.gz was not unpacked: the release tells no sha256 for it, so nobody "
        "could see whether it is what was published; nothing of it was kept\n")
    assert with_b100.server.archive_bytes() == 0
    untouched(with_b100)


def test_hashes_in_a_file_of_the_release(with_b100):
    with_b100.server.release("b200", {"cpu": embedded("b200")}, digest="sums")
    with_b100.ok("engine", "update")
    assert with_b100.rows() == {"b100": False, "b200": True}


@pytest.mark.parametrize(("fault", "words"), [
    (rate_limited(3600), "too many questions came from this address (403), it answers again in "),
    (Reply(429, b"", {"Retry-After": "60"}), "questions came from this address (429), it answers again in 1 m;"),
    (Reply(502, b"bad"), "the server answered 502 Bad Gateway;"),
])
def test_a_server_that_does_not_answer(with_b100, fault, words):
    with_b100.server.fault = fault
    for verb in ("update", "check"):
        said = refused(with_b100, "engine", verb)
        assert words in said and said.endswith("; what is installed stays as it is, try again later\n")
    with_b100.server.fault = None
    untouched(with_b100)


def test_a_tag_that_does_not_exist(with_b100):
    assert refused(with_b100, "engine", "update", "--tag", "b999") == (
        f"blazar: there is no engine release b999 of {REPO}; `blazar engine check` tells the newest\n")
    untouched(with_b100)


def test_an_archive_that_is_not_there(with_b100):
    file = with_b100.server.release("b200", {"cpu": embedded("b200")})["cpu"]
    file.status = 404
    assert "the server has no such file (404)" in refused(with_b100, "engine", "update")
    untouched(with_b100)


def test_no_build_for_this_machine(with_b100):
    with_b100.config.write_text('engine_asset = "tpu"\n')
    assert refused(with_b100, "engine", "update") == (
        "blazar: engine release b100 has no build of the flavour 'tpu' for this machine (x64); it has cpu: choose one "
        "with `engine_asset = \"...\"`, or build it here with `blazar engine build cpu`\n")
    with_b100.config.write_text("")
    untouched(with_b100)


@pytest.mark.debian
@pytest.mark.parametrize(("files", "words"), [
    ({"../../../evil": b"1"}, "an entry is called '../../../evil', which is no plain path inside it"),
    ({"/tmp/evil": b"1"}, "an entry is called '/tmp/evil', which is no plain path inside it"),
    ({"l/zeros": bytes(70 << 20)}, "it unpacks to over 64.0 MiB"),
    ({"l/readme": b"1"}, "it holds no llama-server"),
])
def test_archives_that_are_refused(with_b100, files, words):
    content = tar({"l/first": b"1", **files})
    with_b100.server.release("b200", {"cpu": content})
    said = refused(with_b100, "engine", "update")
    assert said.endswith(f"llama-b200-bin-ubuntu-x64.tar.gz was not unpacked: {words}; nothing of it was kept\n")
    assert with_b100.server.archive_bytes() == len(content)
    assert not list(with_b100.home.rglob("evil")) and not os.path.exists("/tmp/evil")
    untouched(with_b100)
    assert with_b100.leftovers() == set()


@pytest.mark.debian
@pytest.mark.parametrize(("script", "words"), [
    (b"#!/bin/sh\necho 'error while loading shared libraries: libcuda.so.1' >&2; exit 127\n",
     "it ended with exit code 127; it said: error while loading shared libraries: libcuda.so.1"),
    (b"#!/bin/sh\nkill -ILL $$\n", "it was ended by SIGILL, without a word"),
    (b"no program", "Exec format error"),
])
def test_a_build_that_does_not_run_here(with_b100, script, words):
    with_b100.server.release("b200", {"cpu": tar({"l/llama-server": script})})
    said = refused(with_b100, "engine", "update")
    assert "blazar: b200 is not taken into use: it does not start on this machine: " in said and words in said
    untouched(with_b100)
    assert with_b100.leftovers() == set()


def test_a_disk_that_is_full(shell, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only the superuser can mount a small disk")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", small], check=True)
    try:
        shell.data = small / "data"
        shell.server.release("b100", {"cpu": embedded("b100")})
        shell.ok("engine", "update", "--data-dir", str(shell.data))
        packs = tar({"l/llama-server": embedded_script(), "l/zeros": bytes(20 << 20)})
        large = tar({"l/llama-server": embedded_script(), "l/x": noise(12 << 20)})
        for tag, content in (("b200", large), ("b300", packs)):  # too large to download, and to unpack
            shell.server.release(tag, {"cpu": content})
            said = refused(shell, "engine", "update", "--data-dir", str(shell.data))
            assert "free some space" in said, said
            assert shell.rows() == {"b100": True} and shell.folders() == {"b100"}
        shell.server.release("b400", {"cpu": embedded("b400")})
        shell.ok("engine", "update", "--data-dir", str(shell.data))
        assert shell.rows() == {"b100": False, "b400": True} and shell.leftovers() == set()
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.debian
def test_builds_are_kept_and_removed(with_b100):
    with_b100.config.write_text("keep_tags = 2\n")
    for tag in ("b200", "b300"):
        with_b100.server.release(tag, {"cpu": embedded(tag)})
    with_b100.ok("engine", "update", "--tag", "b200")
    assert with_b100.ok("engine", "update") == (
        "b300 (cpu) is in use now; `blazar engine rollback` goes back to b200\n"
        "removed b100, which is beyond keep_tags\n")
    assert with_b100.rows() == {"b200": False, "b300": True} and with_b100.folders() == {"b200", "b300"}
    assert with_b100.ok("engine", "prune") == "there is nothing to remove: keep_tags is 2\n"
    with_b100.config.write_text("keep_tags = 1\n")
    assert with_b100.ok("engine", "prune") == "removed b200\n"
    assert refused(with_b100, "engine", "rollback") == (
        "blazar: there is no build to go back to: none was in use before this one; `blazar engine list` shows what is "
        "installed\n")
    assert refused(with_b100, "engine", "remove", "b300") == (
        "blazar: b300 is in use, so it is not removed; `blazar engine use TAG` takes another one first\n")
    assert with_b100.folders() == {"b300"} and with_b100.leftovers() == set()


@pytest.mark.debian
def test_use_rollback_and_remove(with_b100):
    with_b100.server.release("b200", {"cpu": embedded("b200")})
    with_b100.ok("engine", "update")
    assert with_b100.ok("engine", "use", "b100") == (
        "b100 (cpu) is in use now; `blazar engine rollback` goes back to b200\n")
    assert with_b100.ok("engine", "rollback") == (
        "b200 (cpu) is in use now; `blazar engine rollback` goes back to b100\n")
    assert with_b100.ok("engine", "remove", "b100") == "removed b100\n"
    assert with_b100.rows() == {"b200": True} and with_b100.folders() == {"b200"}
    assert "there is no engine build 'b100' here" in refused(with_b100, "engine", "use", "b100")
    shutil.rmtree(with_b100.data / "engines" / "b200")
    assert with_b100.ok("engine", "update") == "b200 (cpu) is in use now\n"
    assert with_b100.ok("engine", "update") == "b200 (cpu) is in use already\n"


def test_a_second_command_at_the_same_time(with_b100):
    content = tar({"l/llama-server": embedded_script(), "l/x": noise(200_000)})
    file = with_b100.server.release("b200", {"cpu": content})["cpu"]
    file.held = threading.Event()
    running = subprocess.Popen([*BLAZAR, "engine", "update"], env=with_b100.env, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        until(with_b100.server.archive_bytes, what="the first piece of the archive")
        assert refused(with_b100, "engine", "use", "b100") == (
            f"blazar: another `blazar engine` command changes the engines of {with_b100.data} at this moment; wait for "
            "its end, then try again\n")
        file.held.set()
        assert running.wait(30) == 0
    finally:
        running.kill()
        running.communicate()
    assert with_b100.rows() == {"b100": False, "b200": True}


def test_a_data_dir_that_moves_keeps_its_engines(with_b100):
    moved = with_b100.home / "elsewhere"
    with_b100.data.rename(moved)
    (row,) = installed(with_b100, "--data-dir", str(moved))
    assert row["path"] == str(moved / "engines/b100/llama-b100/llama-server") and os.access(row["path"], os.X_OK)
    with_b100.data = moved
    with_b100.server.release("b200", {"cpu": embedded("b200")})
    with_b100.ok("engine", "update", "--data-dir", str(moved))
    with_b100.ok("engine", "rollback", "--data-dir", str(moved))
    assert with_b100.rows() == {"b100": True, "b200": False}
