"""`gunicorn -k gevent blazar.wsgi`: the same application under a gunicorn that is not ours."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import blazar
from tests.support.fake_supervisor import FakeSupervisor, endpoint, eventually
from tests.support.gateway_under_test import MODEL
from tests.support.scripted_child import ScriptedChild, hello_world


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@pytest.fixture
def stock(tmp_path):
    """Starts a stock gunicorn; gives its port, its data dir, and its log."""
    data = tmp_path / "data" / "blazar"
    data.mkdir(parents=True)
    port = free_port()
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data"),
                   "PYTHONPATH": str(Path(blazar.__file__).parent.parent)}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "gunicorn", "-k", "gevent", "-b", f"127.0.0.1:{port}",
                                    "blazar.wsgi"], env=environment, cwd=tmp_path, start_new_session=True,
                                   stdout=log, stderr=log)
    try:
        yield port, data, tmp_path / "log"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def get(port: int, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def up(port: int) -> bool:
    with contextlib.suppress(OSError):
        return get(port, "GET", "/healthz")[0] == 200
    return False


def test_without_a_supervisor_it_waits_for_one_and_then_serves(stock):
    port, data, log = stock
    eventually(lambda: up(port), 20, log)
    chat = {"model": "solo", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    assert get(port, "GET", "/api/tags") == (200, b'{"models":[]}')
    assert get(port, "POST", "/v1/chat/completions", chat)[0] == 404
    with ScriptedChild(hello_world) as child:
        supervisor = FakeSupervisor(data, [MODEL])
        supervisor.loaded[MODEL] = endpoint(MODEL, child.address)
        supervisor.open_control()
        try:
            eventually(lambda: len(supervisor.notes("hello")) == 1)
            eventually(lambda: MODEL.encode() in get(port, "GET", "/api/tags")[1])
            status, body = get(port, "POST", "/v1/chat/completions", chat)
            assert status == 200 and body.endswith(b"data: [DONE]\n\n")
            status, body = get(port, "POST", "/api/chat", {**chat, "stream": False})
            assert status == 200 and json.loads(body)["message"]["content"] == "Hello world"
            assert get(port, "PUT", "/api/chat")[0] == 405
        finally:
            supervisor.close_control()
    assert "Traceback" not in log.read_text()
