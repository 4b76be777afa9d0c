"""The real engine as a child of the real daemon, with generated tiny models."""

import json
import os
import signal
import urllib.request

import pytest

from blazar.store.store import Store
from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import DAEMONS
from tests.support.real_engine import engine_path
from tests.support.tiny_gguf import tiny_gguf
from tests.support.transports import BY_END
from tests.support.waiting import until


@pytest.fixture(params=BY_END)
def daemon(request, tmp_path):
    with DAEMONS[request.param](tmp_path, launcher=LAUNCHER, engine_path=engine_path(), max_loaded_models=1) as daemon:
        daemon.models = [Store(daemon.paths).install_file(tiny_gguf(tmp_path / f"{name}.gguf", seed), name)["name"]
                         for seed, name in enumerate(("one", "two"))]
        yield daemon.start()


def complete(daemon, model):
    body = json.dumps({"model": model, "max_tokens": 8, "temperature": 0,
                       "messages": [{"role": "user", "content": "hi"}]}).encode()
    request = urllib.request.Request(daemon.url + "/v1/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def endpoint(daemon, model):
    link = daemon.control()
    try:
        return link.ask("ensure_ready", 60, model=model)["endpoint"]
    finally:
        link.close()


def test_models_load_swap_and_come_back_after_a_crash(daemon):
    one, two = daemon.models
    first = complete(daemon, one)
    assert first["usage"]["completion_tokens"] > 0
    ready = endpoint(daemon, one)
    assert (ready["slots"], ready["ctx"]) == (1, 4096), "as the engine reports it, never more than trained"
    complete(daemon, two)
    assert (daemon.state(one), daemon.state(two)) == ("absent", "ready")
    os.kill(endpoint(daemon, two)["pid"], signal.SIGKILL)
    until(lambda: daemon.state(two) == "absent")
    assert complete(daemon, one)["choices"][0]["message"] == first["choices"][0]["message"]
    tree = daemon.tree()
    assert daemon.stop() == 0
    daemon.wait_gone(tree, 0.5)
    assert "engine was ended by SIGKILL" in daemon.log()


def test_what_the_engine_refuses_is_a_400_of_openai(daemon):
    """Of FC-24: a relayed body is judged by the engine."""
    asked = {"model": daemon.models[0], "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    for body in ({"messages": {}}, {"messages": [5]}, {"messages": None}, {"temperature": "hot"}):
        status, answer = daemon.post("/v1/chat/completions", {**asked, **body})
        assert status == 400, body
        assert isinstance(answer["error"]["message"], str) and isinstance(answer["error"]["type"], str), body


def test_a_file_spoilt_after_its_installation_fails_in_words(daemon):
    one, _ = daemon.models
    file = daemon.file(one)
    data = bytearray(file.read_bytes())
    data[40:60] = bytes(20)
    file.write_bytes(data)
    with pytest.raises(Exception, match=r"not a usable GGUF file: a metadata key has|failed to load model"):
        endpoint(daemon, one)
