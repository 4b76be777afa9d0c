"""Real processes that accept requests and do nothing, or stop in the middle: which are replaced, and which stay."""

import json
import os
import signal
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from blazar.supervisor.gateway import LAUNCHER
from tests.support import exposition
from tests.support.daemon import DAEMONS, Daemon
from tests.support.gateway_under_test import ASK
from tests.support.transports import BY_END
from tests.support.waiting import until

LONG = 90
"""Seconds for which a stub does nothing: longer than any test waits."""
BEGUN = 'data: {"choices":[{"index":0,"delta":{"content":"Half"},"finish_reason":null}]}\n\n'
REST = 'data: {"choices":[{"index":0,"delta":{"content":" done"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
STALLED = [BEGUN, {"pause": LONG}]
CHILDREN = {
    # name: how it behaves at its first start; dialect and streaming of its client; status, a part of the answer, starts
    "silent": ({"silent": LONG}, "openai", False, 200, "Hello there.", 2),
    "working": ({"silent": LONG, "busy": "moving"}, "anthropic", False, 504, "child_header_timeout_secs", 1),
    "stalled": ({"chunks": STALLED}, "anthropic", True, 200, "standstill", 2),
    "still": ({"chunks": STALLED, "busy": "still"}, "openai", True, 200, "standstill", 2),
    "frozen": ({"chunks": STALLED, "busy": "moving"}, "ollama", True, 200, "standstill", 2),
    "paused": ({"chunks": [BEGUN, {"pause": 6}, REST], "busy": "moving"}, "openai", True, 200, " done", 1),
}
ENDED = {name for name, child in CHILDREN.items() if child[-1] == 2}


@pytest.mark.parametrize("transport", BY_END)
def test_who_is_replaced_and_who_stays(tmp_path, transport):
    with DAEMONS[transport](tmp_path, launcher=LAUNCHER, max_loaded_models=20, child_header_timeout_secs=2,
                            sentinel_stall_secs=1) as daemon:
        models = {name: daemon.install(name, **child[0]) for name, child in CHILDREN.items()}
        daemon.start()
        with ThreadPoolExecutor(len(models)) as threads:
            answers = {name: threads.submit(ask, daemon, models[name], *CHILDREN[name][1:3]) for name in models}
            for name, model in models.items():
                until(lambda model=model: any(request["method"] == "POST" for request in daemon.requests(model)), 40)
                daemon.play(model)  # from its next start on it is a good one
                if name == "frozen":
                    os.kill(int(daemon.starts(model)[0][0]), signal.SIGSTOP)
            for name, (_, _, _, status, part, starts) in CHILDREN.items():
                told = answers[name].result()
                assert told[0] == status and part in told[1], (name, told)
                if starts == 2 and "Half" in told[1]:  # its client had an error; the next one is served
                    assert "Hello there." in ask(daemon, models[name], "openai", False)[1], name
                assert len(daemon.starts(models[name])) == starts, name
        check_what_is_told(daemon, models)


def test_a_child_that_works_stays_while_it_makes_room_for_another(tmp_path):
    with Daemon(tmp_path, launcher=LAUNCHER, max_loaded_models=1, child_header_timeout_secs=2) as daemon, \
            ThreadPoolExecutor(2) as threads:
        works, other = daemon.install("works", silent=LONG, busy="moving"), daemon.install("other")
        daemon.start()
        slow = threads.submit(ask, daemon, works, "anthropic", False)
        until(lambda: any(request["method"] == "POST" for request in daemon.requests(works)), 40)
        following = threads.submit(ask, daemon, other, "openai", False)
        until(lambda: daemon.state(works) == "draining", 20)
        assert slow.result()[0] == 504 and "child_header_timeout_secs" in slow.result()[1]
        assert following.result()[0] == 200
        assert "it does nothing" not in daemon.log() and len(daemon.starts(works)) == 1


def check_what_is_told(daemon, models):
    until(lambda: exposition.value(metrics(daemon), "blazar_requests_in_flight") == 0, 10)
    told = metrics(daemon)
    for name, model in models.items():
        assert exposition.value(told, "blazar_wedged_children_total", model=model) == (name in ENDED), name
    assert exposition.value(told, "blazar_stalled_answers_total", model=models["paused"], outcome="kept") >= 2
    lines = [json.loads(line) for line in daemon.paths.audit_log.read_text().splitlines()]
    errors = {line["model"].partition(":")[0]: line["error"] for line in reversed(lines)}
    assert errors == {"silent": None, "working": "child-silent", "stalled": "child-wedged", "still": "child-wedged",
                      "frozen": "child-wedged", "paused": None}
    log = daemon.log()
    assert log.count("it does nothing with its requests") == len(ENDED) and "Traceback" not in log


def ask(daemon, model, dialect, stream):
    path, body = ASK[dialect]
    asked = urllib.request.Request(daemon.url + path, json.dumps({**body, "model": model, "stream": stream}).encode())
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def metrics(daemon):
    with urllib.request.urlopen(daemon.url + "/metrics", timeout=10) as answer:
        return exposition.read(answer.read().decode())
