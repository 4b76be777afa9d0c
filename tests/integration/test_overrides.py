"""[model_overrides]: what it says of requests and of eviction, seen by clients."""

import json

import pytest

from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import Daemon
from tests.support.gateway_under_test import MODEL, GatewayUnderTest

SAMPLER = {"temperature": 0.25, "max_tokens": 9, "stop": ["END"]}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    config = {"model_overrides": {MODEL: {"sampler_defaults": SAMPLER}}}
    with GatewayUnderTest(tmp_path_factory.mktemp("overrides"), config) as gateway:
        yield gateway


@pytest.mark.parametrize("dialect", ["openai", "ollama", "anthropic"])
def test_sampler_defaults_fill_what_a_caller_leaves_out(gateway, dialect):
    gateway.fresh()
    assert gateway.ask(dialect).status == 200
    asked = json.loads(gateway.child.received[-1].body)
    assert (asked["temperature"], asked["stop"]) == (0.25, ["END"])
    if dialect != "anthropic":  # there max_tokens is always the caller's
        assert asked["max_tokens"] == 9
    gateway.fresh()
    assert gateway.ask("openai", temperature=0.5, max_completion_tokens=3, stop="x").status == 200
    asked = json.loads(gateway.child.received[-1].body)
    assert (asked["temperature"], asked["max_completion_tokens"], asked["stop"]) == (0.5, 3, "x")
    assert "max_tokens" not in asked


def test_a_pinned_model_stays_and_who_cannot_come_is_told(tmp_path):
    with Daemon(tmp_path, launcher=LAUNCHER, max_loaded_models=1, model_overrides={"one": {"pin": True}}) as daemon:
        for name in ("one", "two"):
            daemon.install(name)
        daemon.start()
        ask = {"messages": [{"role": "user", "content": "hi"}]}
        assert daemon.post("/v1/chat/completions", {**ask, "model": "one"})[0] == 200
        status, answer = daemon.post("/v1/chat/completions", {**ask, "model": "two"}, 10)
        assert status == 503
        assert "all places of max_loaded_models (1) hold models that are pinned" in answer["error"]["message"]
        assert daemon.post("/v1/chat/completions", {**ask, "model": "one"})[0] == 200
        assert len(daemon.starts("one:f32")) == 1
