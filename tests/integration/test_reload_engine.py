"""`blazar reload` as a person types it, with the real engine; and as systemd sees it."""

import json
import os
import signal
import socket
import threading
import urllib.request

import pytest

from blazar.cli.client import daemon_status
from blazar.paths import Paths
from tests.support.daemon import Daemon
from tests.support.reloading import ReloadedDaemon
from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path)
    yield shell
    shell.stop()


def served(shell):
    """The processes of the models that are ready."""
    children = daemon_status(Paths(shell.home / ".local" / "share" / "blazar"))["children"]
    return {child["pid"] for child in children if child["state"] == "ready"}


def test_a_stream_of_the_real_engine_ends_before_its_settings_change(shell):
    refused = shell("reload")
    assert refused.returncode == 4 and "no daemon" in refused.stderr.lower()
    shell.ok("pull", str(tiny_gguf(shell.home / "solo.gguf")), "--name", "solo:f32")
    shell.start()
    lines, begun = [], threading.Event()
    body = json.dumps({"model": "solo:f32", "prompt": "a", "options": {"num_predict": 60, "temperature": 0}}).encode()

    def read():
        with urllib.request.urlopen(shell.url + "/api/generate", body, 120) as answer:
            for line in answer:
                lines.append(json.loads(line))
                begun.set()
    reading = threading.Thread(target=read)
    reading.start()
    assert begun.wait(60)
    former = served(shell)
    shell.ok("config", "set", "default_ctx", "64")
    said = shell.ok("reload")
    assert "changed: default_ctx\n" in said and "solo:f32" in said.splitlines()[1]
    reading.join(60)
    assert lines[-1]["done"] and all("error" not in line for line in lines)

    fresh = until(lambda: served(shell).difference(former), 60)
    assert json.loads(shell.ok("reload", "--json"))["changed"] == []
    shell.config.write_text("default_ctx = 'many'\n")
    refused = shell("reload")
    assert refused.returncode == 2 and "default_ctx" in refused.stderr
    shell.config.unlink()
    gone = shell("reload")
    assert gone.returncode == 2 and str(shell.config) in gone.stderr and served(shell) == fresh


def test_systemd_is_told_when_it_begins_and_when_it_has_ended(tmp_path, monkeypatch):
    name = f"blazar-{tmp_path}"[-100:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, ReloadedDaemon(tmp_path) as daemon:
        manager.bind("\0" + name)
        manager.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", "@" + name)
        monkeypatch.delenv("WATCHDOG_USEC", raising=False)
        daemon.start()
        assert manager.recv(200).startswith(b"READY=1\n")
        daemon.write("port = 'x'")
        for _ in range(2):
            os.kill(daemon.process.pid, signal.SIGHUP)
            kind, _, moment = manager.recv(200).decode().partition("\nMONOTONIC_USEC=")
            assert kind == "RELOADING=1" and int(moment) > 0
            assert manager.recv(200).startswith(b"READY=1\nSTATUS=the configuration ")
            daemon.write("max_queued = 7\n")


def test_a_daemon_without_a_file_says_so(tmp_path):
    with Daemon(tmp_path) as daemon:
        daemon.start()
        daemon.process.send_signal(signal.SIGHUP)
        until(lambda: "it was started without a configuration file" in daemon.log(), 30)
