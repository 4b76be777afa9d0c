"""Downloads whose process is killed, whose disk is full, whose terminal says Ctrl-C, and how fast they are."""

import contextlib
import hashlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from blazar.download.fetch import Source, fetch
from blazar.download.partial import State, part_of, state_of
from blazar.errors import DiskFull
from tests.servers.file_server import FileServer, Reply
from tests.support.downloads import MIB, content, names, sha256
from tests.support.needs import need
from tests.support.waiting import until

ROOT = Path(__file__).parent.parent.parent
KILLS = int(os.environ.get("KILLS", "6"))
"""How often each download is killed."""


def command(url, target, connections, digest):
    return [sys.executable, "-m", "tests.support.fetching", url, str(target), str(connections), digest]


@pytest.mark.parametrize("connections", [1, 8])
def test_a_kill_at_any_byte_leaves_what_the_next_one_continues(tmp_path, connections):
    data, chance = content(40 * MIB), random.Random(connections)
    with FileServer() as server:
        file = server.put("/m", data, rate=12 * MIB / min(3, connections))
        argv = command(server.url("/m"), tmp_path / "m", connections, sha256(data))
        saved = 0
        for kill in range(KILLS):
            child = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
            if kill % 3 == 1:
                until(lambda saved=saved, child=child: kept(tmp_path / "m") > saved or child.poll() is not None, 30)
            offset = server.sent() + chance.randrange(MIB)
            until(lambda offset=offset, child=child: server.sent() >= offset or child.poll() is not None, 30)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            assert set(names(tmp_path)) <= {"m", "m.part", "m.part.json", "m.part.json.new"}
            if (tmp_path / "m").exists():
                assert (tmp_path / "m").read_bytes() == data
                (tmp_path / "m").unlink()
                saved = 0
            assert kept(tmp_path / "m") >= saved, "what was saved once is never lost"
            saved = kept(tmp_path / "m")
        file.rate = None
        server.requests.clear()
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert done.stdout.splitlines()[-1] == sha256(data)
        assert server.sent() == len(data) - saved
    assert (tmp_path / "m").read_bytes() == data
    assert names(tmp_path) == ["m"]


def kept(target):
    """How many bytes the partial of `target` can be continued with."""
    return State.read(state_of(target), part_of(target).stat().st_size if part_of(target).exists() else 0).done.total


def test_ctrl_c_keeps_what_has_come(tmp_path):
    data = content(40 * MIB)
    with FileServer() as server:
        file = server.put("/m", data, rate=8 * MIB)
        child = subprocess.Popen(command(server.url("/m"), tmp_path / "m", 8, sha256(data)), cwd=ROOT,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        until(lambda: server.sent() > 8 * MIB)
        child.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in child.communicate(timeout=5)[1]
        assert names(tmp_path) == ["m.part", "m.part.json"]
        there = kept(tmp_path / "m")
        assert there > 4 * MIB
        file.rate = None
        server.requests.clear()
        assert fetch(Source(server.url("/m")), tmp_path / "m").sha256 == sha256(data)
        assert server.sent() == len(data) - there


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 48 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)]).returncode:
        pytest.skip("only the superuser can mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_file_that_does_not_fit_is_not_begun(small_disk):
    data = content(50 * MIB)
    with FileServer() as server:
        server.put("/m", data)
        words = (rf"^{small_disk} needs 50\.0 MiB more and its file system has 4[78]\.\d MiB left; free some space, or "
                 r"choose another `--data-dir`; what has come is kept, ask again to go on$")
        with pytest.raises(DiskFull, match=words):
            fetch(Source(server.url("/m")), small_disk / "m")
        assert server.sent() < 17 * MIB
    assert names(small_disk) == ["m.part", "m.part.json"]
    assert (small_disk / "m.part").stat().st_size <= MIB


@pytest.mark.parametrize("connections", [1, 8])
def test_a_disk_that_fills_up_meanwhile(small_disk, connections):
    """Somebody else takes the room while the file comes: told in words, and what has come is continued later."""
    data, ballast = content(40 * MIB), small_disk / "ballast"
    with FileServer() as server:
        file = server.put("/m", data)

        def progress(stage, done, total):
            if done and not ballast.exists():
                ballast.write_bytes(b"\0" * 30 * MIB)

        file.rate = 9 * MIB / min(3, connections)
        words = r"needs \d+\.\d MiB more and its file system has \d+\.\d MiB left; .*what has come is kept"
        with pytest.raises(DiskFull, match=words):
            fetch(Source(server.url("/m")), small_disk / "m", progress, connections=connections)
        assert names(small_disk) == ["ballast", "m.part", "m.part.json"]
        ballast.unlink()
        there = kept(small_disk / "m")
        assert there > 0
        file.rate = None
        server.requests.clear()
        assert fetch(Source(server.url("/m")), small_disk / "m", connections=connections).sha256 == sha256(data)
        assert server.sent() == len(data) - there


def test_a_disk_that_is_full_to_the_last_byte_keeps_the_state(small_disk):
    """A body of unknown length runs into the wall; what has come is cut back a little so that its state fits."""
    data = content(50 * MIB)
    with FileServer() as server:
        server.put("/m", data, chunked=True, ranges="whole")
        with pytest.raises(DiskFull, match="No space left on device; free some space"):
            fetch(Source(server.url("/m"), sha256(data)), small_disk / "m", connections=1)
    there = kept(small_disk / "m")
    assert there > 40 * MIB
    assert (small_disk / "m.part").read_bytes()[:there] == data[:there]


def test_a_limit_on_the_size_of_files_is_told(tmp_path):
    data = content(4 * MIB)
    with FileServer() as server:
        server.put("/m", data)
        argv = command(server.url("/m"), tmp_path / "m", 1, sha256(data))
        done = subprocess.run(["sh", "-c", 'ulimit -f 2048; exec "$@"', "sh", *argv], cwd=ROOT, capture_output=True,
                              text=True)
    assert (done.returncode, done.stderr) == (1, "")
    assert "File too large; neither the file system nor `ulimit -f` may limit files" in done.stdout
    assert "m.part.json" in names(tmp_path)


# -- what a person sees --------------------------------------------------------------------------------


def test_in_a_terminal_there_is_one_moving_line(tmp_path):
    data = content(8 * MIB)
    ours, theirs = os.openpty()
    with FileServer() as server:
        server.put("/m", data, rate=8 * MIB)
        child = subprocess.Popen(command(server.url("/m"), tmp_path / "m", 1, sha256(data)), cwd=ROOT,
                                 stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):
            while block := os.read(ours, 4096):
                shown += block
        os.close(ours)
        assert child.wait() == 0
    stages = shown.decode().split("\r\n")
    assert [stage.rpartition("\r\x1b[K")[2].partition(" ")[0] for stage in stages[:-1]] in (
        ["download"], ["download", "verify"])
    drawn = stages[0].split("\r\x1b[K")[1:]
    assert len(drawn) >= 5
    assert all(re.fullmatch(r"download  \[[#.]{1,24}\] [ \d]{3} %  [\d.]+ \w+( of 8\.0 MiB)(  [\d.]+ \w+/s)?"
                            r"(  [\d. ms]+ left)?|download  [\d.]+ \w+", line) for line in drawn), drawn
    assert "/s" in drawn[-1] and "left" in drawn[-2]


def test_in_a_pipe_what_is_quick_leaves_no_line(tmp_path):
    data = content(8 * MIB)
    with FileServer() as server:
        server.put("/m", data)
        done = subprocess.run(command(server.url("/m"), tmp_path / "m", 1, sha256(data)), cwd=ROOT,
                              capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# -- beside curl ---------------------------------------------------------------------------------------


@pytest.fixture
def nginx(tmp_path):
    """nginx over loopback, which serves a folder: the folder and its address."""
    program = need("nginx")
    folder = Path(tmp_path / "served")
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    paths = "".join(f"{kind}_temp_path {tmp_path}/{kind};"
                    for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    user = "user root;" if os.geteuid() == 0 else ""
    (tmp_path / "nginx.conf").write_text(
        f"{user} daemon off; pid {tmp_path}/pid; error_log {tmp_path}/log; events {{}} http {{ access_log off; "
        f"sendfile on; {paths} server {{ listen 127.0.0.1:{port}; root {folder}; }} }}")
    child = subprocess.Popen([program, "-c", str(tmp_path / "nginx.conf"), "-e", str(tmp_path / "log")])
    until(lambda: _answers(port), what="nginx listens")
    yield folder, f"http://127.0.0.1:{port}"
    child.terminate()
    child.wait()


def _answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            return True
    except OSError:
        return False


@pytest.mark.debian
def test_as_fast_as_curl_and_sha256sum_and_sync_in_little_memory(nginx, tmp_path):
    """At most 1.15 times their time, process start included, the best of three; memory grows 32 MiB at most."""
    need("curl")
    size = int(os.environ.get("DOWNLOAD_MIB", "256")) * MIB
    folder, base = nginx
    digest = hashlib.sha256()
    with open(folder / "g", "wb") as file:
        for seed in range(size // (32 * MIB)):
            block = content(32 * MIB, seed)
            digest.update(block)
            file.write(block)
    theirs, ours, grew = [], [], []
    for _ in range(3):
        theirs.append(_timed(["sh", "-c", f"curl -s -o f {base}/g && sha256sum f && sync f"], tmp_path)[0])
        (tmp_path / "f").unlink()
        seconds, said = _timed(command(f"{base}/g", tmp_path / "f", 8, digest.hexdigest()), ROOT)
        (tmp_path / "f").unlink()
        ours.append(seconds)
        grew.append(int(said.splitlines()[-2].split()[1]))
        assert said.splitlines()[-1] == digest.hexdigest()
    assert min(ours) <= 1.15 * min(theirs), f"{ours} s beside {theirs} s"
    assert max(grew) <= 32 * 1024, f"grew by {grew} KiB"


def _timed(argv, folder):
    os.sync()
    began = time.monotonic()
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
    return time.monotonic() - began, done.stdout


def test_a_file_of_unknown_size_does_not_fill_the_disk(small_disk):
    """It may be endless, so some room is left for everything else, and what came of it does not lie there."""
    with FileServer() as server:
        server.on("/m", lambda seen: Reply(200, content(60 * MIB), chunked=True))
        with pytest.raises(DiskFull, match=r"whose size its server does not tell has .* see that it is the right"):
            fetch(Source(server.url("/m")), small_disk / "m")
    assert names(small_disk) == []


def test_a_file_of_unknown_size_that_fits(small_disk):
    data = content(30 * MIB)
    with FileServer() as server:
        server.on("/m", lambda seen: Reply(200, data, chunked=True))
        assert fetch(Source(server.url("/m")), small_disk / "m").sha256 == sha256(data)
    assert names(small_disk) == ["m"]
