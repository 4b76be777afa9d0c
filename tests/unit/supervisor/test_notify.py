import socket

import pytest

from blazar.supervisor.notify import notify, stopping, watchdog_pause


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told(tmp_path, monkeypatch, abstract):
    name = f"@blazar-{tmp_path.name}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind("\0" + name[1:] if abstract else name)
        systemd.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        notify("READY=1")
        assert systemd.recv(100) == b"READY=1"


@pytest.mark.parametrize("name", [None, "", "relative", "/nowhere/at/all"])
def test_nobody_is_told(monkeypatch, name):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    if name is not None:
        monkeypatch.setenv("NOTIFY_SOCKET", name)
    notify("READY=1")


def test_a_manager_that_does_not_read_holds_nobody_up(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        for _ in range(5000):
            notify("WATCHDOG=1")
        assert systemd.recv(100) == b"WATCHDOG=1"


@pytest.mark.parametrize(("env", "pause"), [
    ({}, None), ({"WATCHDOG_USEC": "30000000"}, 10.0), ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 10.0),
    ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None), ({"WATCHDOG_USEC": "soon"}, None),
    ({"WATCHDOG_USEC": "0"}, None)])
def test_signs_of_life_come_thrice_as_often_as_they_must(env, pause):
    assert watchdog_pause(env, 7) == pause


def test_a_long_grace_is_told():
    assert stopping(135.0) == "STOPPING=1\nEXTEND_TIMEOUT_USEC=135000000"
