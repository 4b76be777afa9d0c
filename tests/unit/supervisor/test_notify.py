import socket

import pytest

from blazar.supervisor.notify import notify


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
