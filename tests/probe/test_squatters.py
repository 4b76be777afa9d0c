"""FC-27: somebody else answers where a child was to listen, or did. No prompt, no secret, and no ready model."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from blazar.supervisor import processes
from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import DAEMONS, STUB_ENGINE, Daemon
from tests.support.transports import BY_END
from tests.support.waiting import until


@pytest.fixture(params=BY_END)
def daemon(request, tmp_path):
    with DAEMONS[request.param](tmp_path) as daemon:
        yield daemon


@pytest.fixture
def gate(tmp_path):
    """Where the engine waits with a port that it was given, until its number, or `all`, is here."""
    folder = tmp_path / "gate"
    folder.mkdir()
    return folder


class Squatter:
    """Answers 200 {"status":"ok"} to everything and notes what it is sent."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self.heard: list[bytes] = []
        squatter = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                squatter.heard.append(self.requestline.encode() + bytes(self.headers))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'{"status":"ok"}')

            do_POST = do_GET

        class Server(HTTPServer):
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

        self.server = Server((host, port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def test_ten_models_at_once_end_on_ten_addresses(daemon):
    models = [daemon.install(f"m{number}") for number in range(10)]
    daemon.start()
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda model: daemon.get(f"/load/{model}"), models))
    assert [status for status, _ in answers] == [200] * 10
    assert len({str(endpoint["address"]) for _, endpoint in answers}) == 10
    secrets = {endpoint["secret"] for _, endpoint in answers}
    assert secrets == {None} if daemon.unix else len(secrets) == 10


@pytest.mark.parametrize("daemon", ["tcp"], indirect=True)
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_squatter_on_the_childs_port_hears_nothing(daemon, gate, host):
    """The engine refuses `--port 0`, so a port is chosen for it; the squatter takes that one before it binds."""
    model = daemon.install("solo", refuse_port_0=True, port_gate=str(gate))
    daemon.start()
    answers = []
    asking = threading.Thread(target=lambda: answers.append(daemon.get(f"/load/{model}")))
    asking.start()
    starts = until(lambda: len(daemon.starts(model)) == 2 and daemon.starts(model), what="the start with a port")
    port = int(starts[1][1])
    assert port != 0
    squatter = until(lambda: _squat(port, host), what="a port that the squatter can have")
    (gate / "all").touch()
    asking.join(20)
    status, endpoint = answers[0]
    assert status == 200
    assert (endpoint["address"][1] != port) == (host == "127.0.0.1")
    assert squatter.heard == []
    squatter.server.shutdown()


@pytest.mark.parametrize("daemon", ["tcp"], indirect=True)
def test_squatter_on_every_port_ends_in_a_clear_error(daemon, gate):
    model = daemon.install("solo", refuse_port_0=True, port_gate=str(gate))
    daemon.start()
    squatters = []
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(daemon.get, f"/load/{model}")
        for tries in (2, 3):
            starts = until(lambda tries=tries: daemon.starts(model)[tries - 1:], 20, f"start {tries}")
            port = int(starts[0][1])
            squatters.append(until(lambda port=port: _squat(port), what="a port that the squatter can have"))
            (gate / str(port)).touch()
        status, error = asking.result(20)
    assert status == 503
    assert error["slug"] == "load-failed"
    assert "Address already in use" in error["message"]
    assert [squatter.heard for squatter in squatters] == [[], []]
    assert len(daemon.starts(model)) == 3


@pytest.mark.parametrize("daemon", ["tcp"], indirect=True)
def test_the_child_of_another_gateway_with_another_secret(daemon, gate, tmp_path):
    """It would answer /health, and knows nothing of our secret: it is not even asked."""
    model = daemon.install("solo", refuse_port_0=True, port_gate=str(gate))
    daemon.start()
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(daemon.get, f"/load/{model}")
        starts = until(lambda: len(daemon.starts(model)) == 2 and daemon.starts(model), what="the start with a port")
        other = subprocess.Popen([sys.executable, str(STUB_ENGINE), "--model", str(tmp_path / "other"), "--port",
                                  starts[1][1], "--api-key", "theirs"], stderr=subprocess.DEVNULL)
        try:
            until(lambda: processes.owned_listeners(other.pid), 20, "the other one, at that port")
            (gate / "all").touch()
            status, endpoint = asking.result(20)
            assert status == 200 and endpoint["address"][1] != int(starts[1][1])
            assert not (tmp_path / "other.requests.jsonl").exists()
        finally:
            other.kill()
            other.wait()


@pytest.fixture
def gateway(tmp_path):
    with Daemon(tmp_path, launcher=LAUNCHER) as daemon:
        yield daemon


def test_who_takes_the_port_of_a_child_that_has_died_hears_nothing(gateway):
    """The supervisor stands still, so nobody but the gateway itself can notice that the child is gone."""
    model = gateway.install("solo")
    body = {"model": model, "messages": [{"role": "user", "content": "a secret"}], "stream": False}
    gateway.start()
    assert gateway.post("/v1/chat/completions", body)[0] == 200
    link = gateway.control()
    endpoint = link.ask("ensure_ready", 10, model=model)["endpoint"]
    link.close()
    os.kill(gateway.process.pid, signal.SIGSTOP)
    try:
        os.kill(endpoint["pid"], signal.SIGKILL)
        squatter = until(lambda: _squat(endpoint["address"][1]), what="the port of the dead child")
        with ThreadPoolExecutor(4) as pool:
            asking = [pool.submit(gateway.post, "/v1/chat/completions", body) for _ in range(4)]
            time.sleep(0.5)  # long enough for a prompt to come, were one sent
            assert squatter.heard == []
            os.kill(gateway.process.pid, signal.SIGCONT)
            assert [answer.result(20)[0] for answer in asking] == [200] * 4
    finally:
        os.kill(gateway.process.pid, signal.SIGCONT)
    assert squatter.heard == []
    squatter.server.shutdown()


def _squat(port, host="127.0.0.1"):
    """None while somebody else has the port: any connection of this machine may have been given it just now."""
    with contextlib.suppress(OSError):
        return Squatter(port, host)
    return None


@pytest.mark.parametrize("daemon", ["unix"], indirect=True)
def test_a_stranger_on_the_childs_socket_hears_nothing(daemon):
    """It has bound the path after the child: nothing is sent there, and the load ends in words."""
    model = daemon.install("solo", warm_delay=30)
    daemon.settings["model_load_timeout_secs"] = 2
    daemon.start()
    path = daemon.paths.run / "solo%3Af32.sock"
    answers = []
    asking = threading.Thread(target=lambda: answers.append(daemon.get(f"/load/{model}")))
    asking.start()
    until(path.exists)
    path.unlink()
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(path))
        stranger.listen()
        asking.join(10)
        assert answers[0][0] == 504
        stranger.settimeout(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                connection, _ = stranger.accept()
                assert connection.recv(100) == b""
