"""The router child under a real daemon, with a stub that is a router: names, faults, and its life."""

import http.client
import json
import os
import signal
import threading

import pytest

from blazar.supervisor.gateway import LAUNCHER
from tests.support import stub_model
from tests.support.daemon import Daemon
from tests.support.routers import STUB_ROUTER, without_router
from tests.support.waiting import until

GONE = "proxy error: Failed to read connection"
"""What a router writes behind an answer when its own child has died."""
BEGUN = 'data: {"choices": [{"index": 0, "delta": {"content": "Hel"}, "finish_reason": null}]}\n\n'


DIALECTS = ("/v1/chat/completions", "/api/chat", "/v1/messages")
PASSING = {"gone": (400, "model 'x' not found", DIALECTS[:1]),
           "idle": (400, "model name=x is not running", DIALECTS[1:2]),
           "full": (500, "model limit reached, try again later", DIALECTS[2:]),
           "dead": (500, "proxy error: Could not establish connection", DIALECTS[:1])}
"""By model: what the router answers twice, and the dialects in which it is asked."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """A daemon with three good models, and one for each fault."""
    with Daemon(tmp_path_factory.mktemp("router"), launcher=LAUNCHER, router=True, engine_path=str(STUB_ROUTER),
                idle_timeout_secs=0) as daemon:
        daemon.one, daemon.two, daemon.slow = (daemon.install("one"), daemon.install("two"),
                                               daemon.install("slow", pause=0.1))
        for name, (status, message, dialects) in PASSING.items():
            daemon.install(f"{name}", says=[[status, message]] * (2 * len(dialects) + 1))
        daemon.install("long", says=[[400, "too many tokens"]] * 2)
        daemon.install("bad", says=[[500, "model name=bad failed to load"]])
        daemon.install("broken", chunks=[BEGUN, GONE])
        daemon.install("glued", chunks=[BEGUN + GONE])
        daemon.install("cut", chunks=['{"choices": [', GONE])
        daemon.install("endless", chunks=[BEGUN])
        daemon.install("writer", chunks=[BEGUN.replace("Hel", "proxy error: "), "data: [DONE]\n\n"])
        yield daemon.start()


def chat(daemon, model, path="/v1/chat/completions", stream=False, **fields):
    return daemon.post(path, {"model": model, "max_tokens": 9, "stream": stream,
                              "messages": [{"role": "user", "content": "hi"}], **fields})


def streamed(daemon, path, model):
    """The whole body of a stream, as far as it came."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=30)
    try:
        connection.request("POST", path, json.dumps({"model": model, "max_tokens": 9, "stream": True,
                                                     "messages": [{"role": "user", "content": "hi"}]}))
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def in_background(daemon):
    """A stream of the slow model: where its body will stand, and the thread that reads it."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(streamed(daemon, "/v1/chat/completions", "slow")))
    thread.start()
    return answers, thread


def routers(daemon):
    return [child for child in daemon.status()["children"] if child["model"] == "router"]


def calls(daemon):
    file = daemon.paths.run / "router.ini.calls.jsonl"
    return [tuple(json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []


def bodies(daemon, model):
    return [bytes.fromhex(request["body"]) for request in daemon.requests(model) if request["method"] == "POST"]


def loaded(daemon):
    return [model["name"] for model in daemon.get("/api/ps")[1]["models"]]


def test_one_child_serves_every_model_in_every_dialect_and_spelling(daemon):
    assert loaded(daemon) == []
    for path in DIALECTS:
        for spelling in ("one", "ONE", daemon.one, "one:latest", "two"):
            status, answer = chat(daemon, spelling, path)
            assert status == 200 and "Hello there." in json.dumps(answer), answer
    assert [child["model"] for child in daemon.status()["children"]] == ["router"]
    assert {json.loads(body)["model"] for body in bodies(daemon, daemon.one)} == {daemon.one}
    assert {json.loads(body)["model"] for body in bodies(daemon, daemon.two)} == {daemon.two}
    assert loaded(daemon) == [daemon.one, daemon.two]
    secret = daemon.requests(daemon.one)[0]["headers"]["Authorization"].removeprefix("Bearer ")
    assert secret == (daemon.paths.run / "router.apikey").read_text().strip()


def test_only_the_name_in_a_request_is_changed(daemon):
    sent = b'{ "model"\t: "%b",  "messages":[{"role":"user","content":"model"}], "model_extra": 1.50 }'
    for name in (daemon.one.encode(), b"One"):
        connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=30)
        connection.request("POST", "/v1/chat/completions", sent % name)
        assert connection.getresponse().read().startswith(b'{"id"')
        connection.close()
        assert bodies(daemon, daemon.one)[-1] == sent % daemon.one.encode()


@pytest.mark.parametrize("model", PASSING)
def test_a_model_that_is_just_going_is_asked_for_again_and_then_the_client_is_told_when(daemon, model):
    _, says, dialects = PASSING[model]
    for path in dialects:
        connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=30)
        connection.request("POST", path, json.dumps({"model": f"{model}", "max_tokens": 9, "stream": False,
                                                     "messages": [{"role": "user", "content": "hi"}]}))
        answer = connection.getresponse()
        told = json.dumps(json.loads(answer.read()))
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1"), told
        assert f"the router could not serve {model}:f32 just now: it said `{says.split(',')[0]}`; try again" in told
        connection.close()
    assert chat(daemon, f"{model}")[0] == 200, "one such answer alone is not told"


def test_errors_of_the_model_itself_pass_and_a_failed_load_is_explained(daemon):
    assert chat(daemon, "long") == (400, {"error": {"code": 400, "message": "too many tokens", "type": "server_error"}})
    assert chat(daemon, "long", "/api/chat") == (400, {"error": "too many tokens"})
    status, told = chat(daemon, "bad")
    assert (status, told["error"]["code"]) == (503, "load-failed") and "run/router.log" in told["error"]["message"]


@pytest.mark.parametrize("model", ["broken", "glued", "endless"])
def test_an_answer_that_breaks_off_in_the_router_never_looks_whole(daemon, model):
    openai = streamed(daemon, "/v1/chat/completions", model)
    assert openai.startswith(BEGUN) and "proxy error" not in openai and "[DONE]" not in openai
    assert json.loads(openai.removeprefix(BEGUN).removeprefix("data: "))["error"]["code"] == "child-failed"
    *_, last = streamed(daemon, "/api/chat", model).splitlines()
    assert "closed the connection in the middle of its answer" in json.loads(last)["error"]
    assert "event: error" in streamed(daemon, "/v1/messages", model)
    assert chat(daemon, model, "/v1/messages")[0] == chat(daemon, model, "/api/chat")[0] == 502


def test_a_buffered_answer_that_breaks_off_ends_the_connection(daemon):
    with pytest.raises(http.client.IncompleteRead):
        chat(daemon, "cut")


def test_what_a_model_writes_is_not_taken_for_the_routers_words(daemon):
    assert "proxy error: " in streamed(daemon, "/v1/chat/completions", "writer")
    assert streamed(daemon, "/v1/chat/completions", "writer").endswith("data: [DONE]\n\n")


def test_one_model_is_unloaded_when_its_requests_have_ended(daemon):
    chat(daemon, "two")
    [before] = routers(daemon)
    answers, thread = in_background(daemon)
    until(lambda: ("load", f"{daemon.slow},~:") in calls(daemon))
    assert daemon.post("/api/generate", {"model": "slow", "keep_alive": 0})[1]["done_reason"] == "unload"
    thread.join()
    assert answers[0].endswith("data: [DONE]\n\n")
    assert calls(daemon)[-1] == ("unload", f"{daemon.slow},~:")
    assert daemon.two in loaded(daemon) and daemon.slow not in loaded(daemon)
    assert chat(daemon, "slow", "/api/chat", keep_alive=0)[0] == 200
    until(lambda: daemon.slow not in loaded(daemon))
    assert chat(daemon, "slow")[0] == 200
    assert routers(daemon) == [before]


def test_a_change_of_the_store_replaces_it_after_its_streams(daemon):
    chat(daemon, "two")
    [before], asked = routers(daemon), len(bodies(daemon, daemon.slow))
    answers, thread = in_background(daemon)
    until(lambda: len(bodies(daemon, daemon.slow)) > asked)
    three = stub_model.install_stub(daemon.paths, "three", daemon.paths.data_dir)
    link = daemon.control()
    link.ask("changed", 10, what="store")
    link.close()
    assert routers(daemon)[0]["pid"] == before["pid"], "it still writes"
    assert chat(daemon, "three")[0] == 200
    thread.join()
    assert answers[0].endswith("data: [DONE]\n\n"), "the stream was left to end"
    assert routers(daemon)[0]["id"] != before["id"]
    assert f"[{three},~:]" in daemon.paths.router_presets.read_text()
    assert daemon.post("/v1/chat/completions", {"model": "none", "messages": []})[0] == 404
    link = daemon.control()
    link.ask("remove", 20, model=three)
    link.close()
    assert chat(daemon, "three")[0] == 404 and chat(daemon, "two")[0] == 200
    assert three not in daemon.paths.router_presets.read_text()


def test_killed_it_is_started_again(daemon):
    assert chat(daemon, "one")[0] == 200
    [router] = routers(daemon)
    os.kill(router["pid"], signal.SIGKILL)
    daemon.wait_gone([router["pid"]])
    assert chat(daemon, "two")[0] == 200
    assert routers(daemon)[0]["id"] != router["id"]


def test_it_goes_when_nobody_has_asked_for_a_while(tmp_path):
    with Daemon(tmp_path, launcher=LAUNCHER, router=True, engine_path=str(STUB_ROUTER), idle_timeout_secs=1) as daemon:
        one = daemon.install("one")
        daemon.start()
        assert chat(daemon, "one", "/api/chat", keep_alive=-1)[0] == 200
        [model] = daemon.get("/api/ps")[1]["models"]
        assert (model["name"], model["context_length"]) == (one, 4096)
        assert chat(daemon, "one", "/api/chat", keep_alive="100ms")[0] == 200
        until(lambda: not routers(daemon), what="the router to go")
        assert loaded(daemon) == []
        assert chat(daemon, "one")[0] == 200
        assert daemon.stop() == 0 and daemon.tree() == []


def test_a_model_that_no_section_can_hold_has_a_child_of_its_own_and_pinned_the_router_stays(tmp_path):
    unwritable = {"extra_args": ["--override-kv", "a=str:#"]}
    overrides = {"one": {**unwritable, "pin": True}, "two": {"pin": True}, "three": unwritable,
                 "lone": {"exclusive": True}}
    with Daemon(tmp_path, launcher=LAUNCHER, router=True, engine_path=str(STUB_ROUTER), max_loaded_models=2,
                model_overrides=overrides) as daemon:
        one, two, lone = daemon.install("one"), daemon.install("two"), daemon.install("lone")
        daemon.install("three")
        daemon.start()
        assert chat(daemon, "ONE")[0] == chat(daemon, "two")[0] == 200
        assert [child["model"] for child in daemon.status()["children"]] == [one, "router"]
        assert json.loads(bodies(daemon, one)[0])["model"] == "ONE", "its own child takes any name"
        told = f"{one} is served by a child of its own and not by the router: the value of --override-kv has a "
        assert f"{told}character that a preset file cannot hold" in daemon.log()
        assert f"{lone} is served by a child of its own and not by the router: it is `exclusive`" in daemon.log()
        assert sorted(loaded(daemon)) == [one, two]
        listed = {model["id"]: model["status"] for model in daemon.get("/v1/models")[1]["data"]}
        assert (listed[two], listed[lone]) == ("loaded", "not loaded")
        status, told = chat(daemon, "three")
        assert status == 503 and "hold models that are pinned" in told["error"]["message"]
        status, told = chat(daemon, "lone")
        assert status == 503 and "is pinned, and lone:f32 is exclusive" in told["error"]["message"]
        assert chat(daemon, "two")[0] == 200 and routers(daemon)[0]["id"] == "router#1"


def test_an_engine_that_is_no_router_gives_each_model_a_child(tmp_path):
    with Daemon(tmp_path, launcher=LAUNCHER, router=True, engine_path=without_router(tmp_path)) as daemon:
        one, two = daemon.install("one"), daemon.install("two")
        daemon.start()
        assert chat(daemon, "one")[0] == chat(daemon, "two")[0] == 200
        assert [child["model"] for child in daemon.status()["children"]] == [one, two]
        told = [line for line in daemon.log().splitlines() if "router = true has no effect" in line]
        assert len(told) == 1 and "`blazar engine update` installs a llama.cpp build that has it" in told[0]


def test_explain_shows_the_command_of_a_section(daemon):
    chat(daemon, "one")
    told = daemon.post("/api/explain", {"model": "one"})[1]
    assert told["loaded"] is True
    assert told["argv"][told["argv"].index("--model") + 1] == str(daemon.file(daemon.one))
    assert told["plan"]["fits"] is True and told["plan"]["resident"] > 0
