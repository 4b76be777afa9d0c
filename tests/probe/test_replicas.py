"""Several children of one model: more are loaded when there is more to do, and a conversation stays with its own."""

import os
import signal
import threading

import pytest

from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import DAEMONS
from tests.support.transports import BY_END
from tests.support.waiting import until


@pytest.fixture(params=BY_END)
def daemon(request, tmp_path):
    with DAEMONS[request.param](tmp_path, launcher=LAUNCHER,
                                model_overrides={"solo": {"replicas": 2, "slots": 1}}) as daemon:
        daemon.model = daemon.install("solo", pause=0.1)
        yield daemon.start()


def ask(daemon, text, path="/v1/chat/completions"):
    """In Ollama's form the stub takes half a second for its answer."""
    return daemon.post(path, {"model": "solo", "messages": [{"role": "user", "content": text}], "stream": False})


def children(daemon):
    return [child["id"] for child in daemon.status()["children"] if child["state"] == "ready"]


def at_once(daemon, *texts):
    threads = [threading.Thread(target=ask, args=(daemon, text, "/api/chat")) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def who_ran(daemon, text):
    return {request["pid"] for request in daemon.requests(daemon.model)
            if request["method"] == "POST" and text.encode().hex() in request["body"]}


def test_a_second_child_comes_with_the_load_and_conversations_keep_theirs(daemon):
    assert ask(daemon, "alone")[0] == 200
    assert len(children(daemon)) == 1, "one is enough as long as one is asked"
    at_once(daemon, *(f"together {number}" for number in range(6)))
    until(lambda: len(children(daemon)) == 2)
    assert sorted(name.rpartition("#")[0] for name in children(daemon)) == [daemon.model, f"{daemon.model} 2"]
    for number in range(8):
        for _ in range(3):
            assert ask(daemon, f"talk {number}")[0] == 200
        assert len(who_ran(daemon, f"talk {number}")) == 1
    assert len({pid for number in range(8) for pid in who_ran(daemon, f"talk {number}")}) == 2
    assert {model["name"] for model in daemon.get("/api/ps")[1]["models"]} == {daemon.model}
    assert daemon.post("/api/generate", {"model": "solo", "keep_alive": 0})[0] == 200
    until(lambda: not children(daemon), what="both to go")


def test_one_that_dies_is_passed_over(daemon):
    at_once(daemon, *(f"together {number}" for number in range(6)))
    until(lambda: len(children(daemon)) == 2)
    [second] = [child["pid"] for child in daemon.status()["children"] if child["id"].startswith(f"{daemon.model} 2#")]
    os.kill(second, signal.SIGKILL)
    daemon.wait_gone([second])
    for number in range(6):
        assert ask(daemon, f"after {number}")[0] == 200
