"""What systemd hears of a real daemon: when it is up, that its run loop lives, and when it stops."""

import signal
import socket

import pytest

from tests.support.daemon import Daemon


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """The socket on which systemd would listen."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind("\0" + f"blazar-{tmp_path}"[:100])
        sock.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + f"blazar-{tmp_path}"[:100])
        monkeypatch.setenv("WATCHDOG_USEC", "300000")
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
        yield sock


def test_a_life_as_systemd_sees_it(tmp_path, manager):
    with Daemon(tmp_path) as daemon:
        daemon.start()
        assert manager.recv(200).decode().split("\n") == ["READY=1", f"STATUS=listening on {daemon.url}"]
        assert [manager.recv(200) for _ in range(4)] == [b"WATCHDOG=1"] * 4
        daemon.process.send_signal(signal.SIGSTOP)
        with pytest.raises(TimeoutError):  # what is still in the socket comes first
            manager.settimeout(1.5)
            while manager.recv(200):
                pass
        manager.settimeout(30)
        daemon.process.send_signal(signal.SIGCONT)
        assert manager.recv(200) == b"WATCHDOG=1"
        daemon.process.terminate()
        told = b"WATCHDOG=1"
        while told == b"WATCHDOG=1":
            told = manager.recv(200)
        assert told == b"STOPPING=1\nEXTEND_TIMEOUT_USEC=17000000"
        assert daemon.process.wait(30) == 0
