"""Names and what clients read of models, with the real supervisor and the stub engine (FC-14, FC-15)."""

import re
from datetime import datetime

import pytest

from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import Daemon

INSTALLED = ["m:q4_0", "m:q8_0", "solo:q4_0"]
CHAT = {"messages": [{"role": "user", "content": "hi"}], "stream": False}
ROUTES = {
    "/api/show": {}, "/api/chat": CHAT, "/api/generate": {"prompt": "hi", "stream": False},
    "/v1/chat/completions": CHAT, "/v1/messages": {**CHAT, "max_tokens": 5},
}
RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("names"), launcher=LAUNCHER) as daemon:
        assert [daemon.install(name) for name in INSTALLED] == INSTALLED
        yield daemon.start()


def ask(daemon, route, model):
    return daemon.post(route, {**ROUTES[route], "model": model})


def tags(daemon):
    return daemon.get("/api/tags")[1]["models"]


# -- FC-15 -----------------------------------------------------------------------------------------------


def test_both_lists_name_the_same(daemon):
    assert [model["name"] for model in tags(daemon)] == INSTALLED
    assert [model["id"] for model in daemon.get("/v1/models")[1]["data"]] == INSTALLED


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("name", [*INSTALLED, "solo", "solo:latest", "SOLO:Q4_0", "Solo"])
def test_a_listed_name_and_every_spelling_of_it_works_on_every_route(daemon, route, name):
    status, answer = ask(daemon, route, name)
    assert status == 200
    if route == "/api/show":
        assert answer["model_info"]["general.name"] == (name if name in INSTALLED else "solo:q4_0")
    else:
        assert answer["model"] in (name, "solo:q4_0")


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(("name", "status", "words"), [
    ("m", 400, "m:q4_0, m:q8_0"), ("m:latest", 400, "m:q4_0, m:q8_0"), ("m:nope", 404, "did you mean m:q4_0"),
    ("solo:q8_0", 404, "did you mean solo:q4_0"), (" solo:q4_0", 400, "blank"), ("../../etc/passwd", 400, "two dots"),
    ("/etc/passwd", 400, "slash"), ("x" * 10_240, 400, "10240"), ("", 400, "model")])
def test_no_other_name_finds_a_model(daemon, route, name, status, words):
    found, answer = ask(daemon, route, name)
    message = answer["error"] if route.startswith("/api/") else answer["error"]["message"]
    assert (found, words in message) == (status, True), message


# -- FC-14 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["model", "name"])
@pytest.mark.parametrize("name", INSTALLED)
def test_show_tells_what_clients_decide_on(daemon, field, name):
    status, shown = daemon.post("/api/show", {field: name})
    assert status == 200 and shown["capabilities"] == ["completion"]
    assert shown["model_info"][f"{shown['model_info']['general.architecture']}.context_length"] == 4096
    assert all(shown["details"][key] for key in ("format", "family", "parameter_size", "quantization_level"))
    is_time(shown["modified_at"])


def test_show_of_an_unknown_model(daemon):
    status, answer = daemon.post("/api/show", {"model": "nobody"})
    assert status == 404 and set(answer) == {"error"} and "nobody" in answer["error"]


def test_tags(daemon):
    for model in tags(daemon):
        assert model["model"] == model["name"] and model["size"] > 0
        assert re.fullmatch(r"[0-9a-f]{64}", model["digest"])
        assert model["details"]["format"] == "gguf" and model["details"]["context_length"] == 4096
        assert model["capabilities"] == ["completion"]
        is_time(model["modified_at"])
    assert len({model["digest"] for model in tags(daemon)}) == len(INSTALLED)


def test_ps(daemon):
    ask(daemon, "/api/chat", "solo")
    loaded = next(model for model in daemon.get("/api/ps")[1]["models"] if model["name"] == "solo:q4_0")
    listed = next(model for model in tags(daemon) if model["name"] == "solo:q4_0")
    assert {key: loaded[key] for key in ("model", "digest", "details")} == {
        key: listed[key] for key in ("model", "digest", "details")}
    assert loaded["size"] > 0 and loaded["size_vram"] >= 0
    assert is_time(loaded["expires_at"]) > datetime.now().astimezone()


@pytest.mark.parametrize("route", ["/api/chat", "/api/generate"])
def test_answers_say_when(daemon, route):
    is_time(ask(daemon, route, "solo")[1]["created_at"])


def is_time(text):
    assert RFC_3339.fullmatch(text), text
    return datetime.fromisoformat(text)
