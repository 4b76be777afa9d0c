"""A taken port, a second daemon, a leftover of our own."""

import os
import socket
import subprocess
import sys

from blazar.supervisor import processes
from tests.support.daemon import Daemon
from tests.support.waiting import until


def refused(daemon: Daemon) -> str:
    """The words of a `serve` that must exit with 3."""
    process = daemon.launch()
    _, said = process.communicate(timeout=20)
    assert process.returncode == 3, said
    assert "Traceback" not in said
    return said


def test_foreign_holder_is_named(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", "import socket; s = socket.create_server(('127.0.0.1', 0)); "
                               "print(s.getsockname()[1], flush=True); input()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    port = int(holder.stdout.readline())
    try:
        with Daemon(tmp_path, port=port) as daemon:
            said = refused(daemon)
            assert f"pid {holder.pid} (" in said
            assert f"127.0.0.1:{port}" in said
            assert daemon.tree() == []
        assert holder.poll() is None
    finally:
        holder.kill()
        holder.wait()


def test_second_daemon_on_the_same_data_dir(tmp_path):
    with Daemon(tmp_path) as first:
        first.start()
        pid = first.process.pid
        second = Daemon(tmp_path)
        assert f"already running, pid {pid}" in refused(second)
        assert first.get("/ok")[0] == 200, "the first one was not touched"


def test_leftover_of_our_own_is_ended(tmp_path):
    """A marked process holds the port although the lock is free: as after a kill -9 that nobody cleaned up."""
    with Daemon(tmp_path) as daemon:
        leftover = subprocess.Popen(
            [sys.executable, "-c", "import signal, socket; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
                                   "s = socket.create_server(('127.0.0.1', 0)); "
                                   "print(s.getsockname()[1], flush=True); signal.pause()"],
            stdout=subprocess.PIPE, text=True,
            env={**os.environ, processes.MARK: f"{daemon.paths.data_dir_id}:gateway"})
        daemon.settings["port"] = int(leftover.stdout.readline())
        daemon.start()
        assert leftover.wait(5) == -9
        assert daemon.get("/ok")[0] == 200


def test_port_is_closed_while_stopping(tmp_path):
    with Daemon(tmp_path) as daemon:
        daemon.start()
        daemon.process.terminate()
        daemon.process.wait(10)
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", daemon.port)) != 0
            until(lambda: not processes.holders_of_port(daemon.port))


def test_long_data_dir(tmp_path):
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    with Daemon(deep) as daemon:
        daemon.start()
        assert daemon.status()["url"] == daemon.url


def test_a_gateway_that_never_comes_up_ends_the_daemon_with_its_words(tmp_path):
    launcher = (sys.executable, "-c", "raise SystemExit('no module of that name')")
    with Daemon(tmp_path, launcher=launcher) as daemon:
        process = daemon.launch()
        _, said = process.communicate(timeout=20)
        assert process.returncode == 1
        assert "no module of that name" in said
        assert "Traceback" not in said


def test_children_are_found_by_no_environment_of_ours(tmp_path, monkeypatch):
    """A serve that itself runs under a mark, as from a shell inside a child, must not end itself."""
    with Daemon(tmp_path) as daemon:
        monkeypatch.setenv(processes.MARK, f"{daemon.paths.data_dir_id}:shell")
        daemon.start()
        assert daemon.get("/ok")[0] == 200
        assert daemon.stop() == 0
