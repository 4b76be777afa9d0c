"""The real gateway on this interpreter's gunicorn: kill -9 under a live stream, orderly stop, dead children."""

import http.client
import json
import os
import signal
import socket
import time
import urllib.request
from contextlib import suppress

import pytest

from blazar.supervisor import processes
from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import DAEMONS
from tests.support.transports import BY_END
from tests.support.waiting import until

EVENT = 'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'


@pytest.fixture(params=BY_END)
def daemon(request, tmp_path):
    with DAEMONS[request.param](tmp_path, launcher=LAUNCHER) as daemon:
        daemon.slow = daemon.install("slow", chunks=[EVENT] * 600, pause=0.05)
        daemon.quick = daemon.install("quick")
        yield daemon


def ask(daemon, model, stream=False, limit=30):
    body = json.dumps({"model": model, "stream": stream, "messages": [{"role": "user", "content": "hi"}]}).encode()
    request = urllib.request.Request(daemon.url + "/v1/chat/completions", body, {"Content-Type": "application/json"})
    return urllib.request.urlopen(request, timeout=limit)


def _ended():
    """A body may end by a close that HTTP calls incomplete; that is not what is tested here."""
    return suppress(OSError, http.client.HTTPException)


def works(daemon):
    with ask(daemon, daemon.quick) as answer:
        return json.loads(answer.read())["choices"][0]["message"]["content"] == "Hello there."


def test_supervisor_killed_under_a_live_stream_and_started_at_once(daemon):
    daemon.start()
    daemon.settings["port"] = daemon.port
    stream = ask(daemon, daemon.slow, stream=True)
    assert stream.readline() == EVENT.splitlines()[0].encode() + b"\n"
    old = daemon.tree()
    daemon.kill()
    daemon.start()
    assert not [pid for pid in old if processes.is_alive(pid)]
    assert works(daemon)


def test_supervisor_killed_for_good_frees_the_port(daemon):
    daemon.settings["shutdown_grace_secs"] = 30  # of which a dead supervisor's gateway must make no use
    daemon.start()
    stream = ask(daemon, daemon.slow, stream=True)
    stream.readline()
    half = socket.create_connection(("127.0.0.1", daemon.port))
    half.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
    old = daemon.tree()
    began = time.monotonic()
    daemon.kill()
    daemon.wait_gone(old)
    with socket.create_server(("127.0.0.1", daemon.port)):
        assert time.monotonic() - began < 5
    half.close()


@pytest.mark.parametrize("who", ["pid", "workers"])
def test_gunicorn_or_its_worker_killed_under_a_live_stream(daemon, who):
    daemon.start()
    stream = ask(daemon, daemon.slow, stream=True)
    stream.readline()
    gateway = daemon.status()["gateway"]
    os.kill(gateway["pid"] if who == "pid" else gateway["workers"][0], signal.SIGKILL)
    daemon.wait_gone(gateway["workers"])
    until(lambda: daemon.status()["gateway"]["workers"] not in ([], gateway["workers"]), what="a new worker")
    assert works(daemon)
    assert daemon.state(daemon.slow) == "ready", "the child lives on"


def test_child_killed_under_a_live_stream(daemon):
    daemon.start()
    stream = ask(daemon, daemon.slow, stream=True)
    stream.readline()
    child = next(child for child in daemon.status()["children"] if child["model"] == daemon.slow)
    os.kill(child["pid"], signal.SIGKILL)
    with _ended():
        while stream.readline():
            pass
    until(lambda: daemon.state(daemon.slow) == "absent")
    with ask(daemon, daemon.slow, stream=True) as again:
        assert again.readline().startswith(b"data: ")


def test_stop_ends_a_stream_within_the_grace_time(daemon):
    daemon.settings["shutdown_grace_secs"] = 1
    daemon.start()
    stream = ask(daemon, daemon.slow, stream=True)
    stream.readline()
    tree = daemon.tree()
    began = time.monotonic()
    daemon.process.terminate()
    try:
        rest = stream.read()
    except http.client.IncompleteRead as cut:
        rest = cut.partial
    assert b'"error"' in rest[-500:]
    assert daemon.process.wait(10) == 0
    assert 1 <= time.monotonic() - began < 6
    daemon.wait_gone(tree, 0.5)
