"""Real RPC workers behind a real engine: a model is split, a worker dies, and that is told in words."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from blazar.engines import rpc
from blazar.store.store import Store
from blazar.supervisor import processes
from blazar.supervisor.gateway import LAUNCHER
from tests.support.built_engines import built
from tests.support.daemon import ROOT, Daemon
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until

pytestmark = pytest.mark.built


@pytest.fixture
def worker(tmp_path):
    """Started by our own verb: its process, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "blazar.cli.main", "--data-dir", str(tmp_path / "worker"), "rpc", "worker",
         "--port", str(port), "--threads", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT,
        env={**os.environ, "BLAZAR_ENGINE_PATH": str(built("llama-server").parent)})
    address = f"127.0.0.1:{port}"
    until(lambda: rpc.ask(address).state == "ready", 20)
    yield process, address
    process.kill()
    process.wait()


def test_a_model_is_split_and_a_dead_worker_is_named(tmp_path, worker):
    process, address = worker
    assert [one.host for one in processes.owned_listeners(process.pid)] == ["127.0.0.1"]
    with Daemon(tmp_path, launcher=LAUNCHER, engine_path=str(built("llama-server")), rpc_servers=address) as daemon:
        model = Store(daemon.paths).install_file(tiny_gguf(tmp_path / "tiny.gguf"), "tiny")["name"]
        daemon.start()
        [(free, total)] = rpc.ask(address).devices
        plan = daemon.post("/api/explain", {"model": model}, 60)[1]["plan"]
        assert [(part["place"], part["layers"]) for part in plan["parts"]] == [(address, 3), ("main memory", 0)]
        assert plan["parts"][0]["budget"] == int(total * 0.9) and 0 < free <= total

        def ask():
            body = json.dumps({"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]})
            return daemon.post("/v1/chat/completions", json.loads(body), 60)
        status, answer = ask()
        assert status == 200 and answer["usage"]["completion_tokens"] > 0
        assert rpc.ask(address, 0.5).state == "busy", "the engine holds it"
        process.send_signal(signal.SIGKILL)
        process.wait()
        until(lambda: ask()[0] != 200, 30)
        until(lambda: daemon.state(model) == "absent", 30)
        until(lambda: address in json.dumps(ask()[1]), 30)
        status, answer = ask()
        assert status == 503
        assert f"rpc_servers names workers that do not answer: {address} (Connection refused)" in answer["error"][
            "message"]
        with urllib.request.urlopen(daemon.url + "/api/ps", timeout=10) as told:
            assert json.loads(told.read())["models"] == []
