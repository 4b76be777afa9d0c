"""kill -9 of every process of the tree, one after another and all at once: nothing is left, and all works again."""

import os
import signal
import threading
import urllib.request
from contextlib import suppress

import pytest

from blazar.supervisor import processes
from tests.support.daemon import DAEMONS, Daemon
from tests.support.transports import BY_END
from tests.support.waiting import until


@pytest.fixture(params=BY_END)
def daemon(request, tmp_path):
    with DAEMONS[request.param](tmp_path) as daemon:
        daemon.model = daemon.install("solo")
        yield daemon


def hold_stream(daemon: Daemon) -> tuple[threading.Thread, list[bytes]]:
    """A client that reads a stream until it ends, however it ends."""
    lines: list[bytes] = []

    def read() -> None:
        try:
            with urllib.request.urlopen(daemon.url + "/stream", timeout=30) as answer:
                for line in answer:
                    lines.append(line)
        except OSError:
            pass

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    until(lambda: lines, what="the first line of the stream")
    return thread, lines


def test_supervisor_killed_under_a_stream_and_started_at_once(daemon):
    daemon.settings["port"] = 0
    daemon.start()
    daemon.settings["port"] = daemon.port
    _, first = daemon.get(f"/load/{daemon.model}")
    hold_stream(daemon)
    old = daemon.tree()
    assert len(old) == 3  # gateway master, worker, child
    daemon.kill()
    daemon.start()
    daemon.wait_gone(old)
    status, second = daemon.get(f"/load/{daemon.model}")
    assert status == 200
    assert second["pid"] != first["pid"]
    assert len(daemon.starts(daemon.model)) == 2


def test_supervisor_killed_and_not_started_again(daemon):
    daemon.start()
    daemon.get(f"/load/{daemon.model}")
    hold_stream(daemon)
    old = daemon.tree()
    daemon.kill()
    daemon.wait_gone(old)


def test_gunicorn_killed(daemon):
    daemon.start()
    _, endpoint = daemon.get(f"/load/{daemon.model}")
    hold_stream(daemon)
    gateway = daemon.status()["gateway"]
    os.kill(gateway["pid"], signal.SIGKILL)
    daemon.wait_gone([gateway["pid"], *gateway["workers"]])
    until(lambda: daemon.status()["gateway"]["workers"] not in ([], gateway["workers"]), what="a new worker")
    assert daemon.get(f"/load/{daemon.model}") == (200, endpoint), "the child was not touched"


def test_worker_killed(daemon):
    daemon.start()
    _, endpoint = daemon.get(f"/load/{daemon.model}")
    gateway = daemon.status()["gateway"]
    os.kill(gateway["workers"][0], signal.SIGKILL)
    until(lambda: daemon.status()["gateway"]["workers"] not in ([], gateway["workers"]), what="a new worker")
    assert daemon.status()["gateway"]["pid"] == gateway["pid"]
    assert daemon.get(f"/load/{daemon.model}") == (200, endpoint)


@pytest.mark.debian
@pytest.mark.parametrize("daemon", ["tcp"], indirect=True)
def test_frozen_worker_is_replaced(daemon):
    daemon.start()
    gateway = daemon.status()["gateway"]
    os.kill(gateway["workers"][0], signal.SIGSTOP)
    until(lambda: daemon.status()["gateway"]["workers"] not in ([], gateway["workers"]), 20, "a new worker")
    daemon.wait_gone([gateway["pid"], *gateway["workers"]])
    assert "no heartbeat" in daemon.log()
    assert daemon.get("/ok")[0] == 200


def test_child_killed(daemon):
    daemon.start()
    _, first = daemon.get(f"/load/{daemon.model}")
    until(lambda: daemon.get("/snapshot")[1]["children"], 2, "the snapshot with the child")
    os.kill(first["pid"], signal.SIGKILL)
    until(lambda: not daemon.get("/snapshot")[1]["children"], 2, "the snapshot without the child")
    status, second = daemon.get(f"/load/{daemon.model}")
    assert status == 200
    assert second["child_id"] == f"{daemon.model}#2"
    assert second["ready_at"] - first["ready_at"] >= 1, "the first crash costs a second of back-off"


def test_a_child_that_has_just_died_is_not_handed_out(daemon):
    daemon.start()
    for generation in (1, 2):
        _, endpoint = daemon.get(f"/load/{daemon.model}")
        assert endpoint["child_id"] == f"{daemon.model}#{generation}"
        os.kill(endpoint["pid"], signal.SIGKILL)
        until(lambda pid=endpoint["pid"]: not processes.is_alive(pid), 2)


def test_everything_killed(daemon):
    daemon.start()
    daemon.settings["port"] = daemon.port
    daemon.get(f"/load/{daemon.model}")
    hold_stream(daemon)
    old = daemon.tree()
    for pid in [daemon.process.pid, *old]:
        with suppress(ProcessLookupError):  # it may have followed the supervisor already
            os.kill(pid, signal.SIGKILL)
    daemon.process.wait()
    daemon.start()
    assert not [pid for pid in old if processes.is_alive(pid)]
    assert daemon.get(f"/load/{daemon.model}")[0] == 200


def test_master_and_supervisor_killed_leave_a_worker_that_the_next_serve_ends(daemon):
    daemon.start()
    daemon.settings["port"] = daemon.port
    gateway = daemon.status()["gateway"]
    os.kill(gateway["workers"][0], signal.SIGSTOP)  # so that it cannot notice by itself
    os.kill(gateway["pid"], signal.SIGKILL)
    daemon.kill()
    daemon.start()
    assert not processes.is_alive(gateway["workers"][0])
    assert daemon.get("/ok")[0] == 200
