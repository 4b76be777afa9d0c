"""`keep_alive` in every spelling, with the real supervisor and the stub engine (FC-12)."""

import json
import time
import urllib.request
from datetime import datetime

import pytest

from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import Daemon
from tests.support.waiting import until

YEAR = 365 * 86400.0
EVENT = 'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
END = ['data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n', "data: [DONE]\n\n"]
ABSENT = object()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Daemon(tmp_path_factory.mktemp("keep"), launcher=LAUNCHER) as daemon:
        daemon.model = daemon.install("m")
        daemon.slow = daemon.install("slow", chunks=[EVENT] * 40 + END, pause=0.05)
        yield daemon.start()


def generate(daemon, value):
    """Status and body of an answer to a prompt with this keep_alive."""
    body = {"model": "m", "prompt": "hi", "stream": False} | ({} if value is ABSENT else {"keep_alive": value})
    return daemon.post("/api/generate", body)


def left(daemon, name):
    """Seconds that /api/ps gives the model; None when it does not list it."""
    for model in daemon.get("/api/ps")[1]["models"]:
        if model["name"] == name:
            return datetime.fromisoformat(model["expires_at"]).timestamp() - time.time()
    return None


@pytest.mark.parametrize(("value", "least", "most"), [
    (-1, YEAR, 200 * YEAR), ("-1m", YEAR, 200 * YEAR), ("5m", 290, 310), (300, 290, 310), ("1h30m", 5390, 5410),
    (None, 1, YEAR), (ABSENT, 1, YEAR), ("300", 290, 310), ("-1", YEAR, 200 * YEAR), (1e300, YEAR, 200 * YEAR)])
def test_it_is_shown_as_asked(daemon, value, least, most):
    status, _ = generate(daemon, value)
    assert status in (200, 400)
    if status == 400:
        assert value in ("300", "-1", 1e300)
        return
    until(lambda: least <= (left(daemon, daemon.model) or 0) <= most, 5, "the time asked for")


@pytest.mark.parametrize("value", [0, "0", "0s", 0.5])
def test_a_short_one_is_gone_soon(daemon, value):
    assert generate(daemon, value)[0] == 200
    until(lambda: left(daemon, daemon.model) is None, 6, "the unloading")


@pytest.mark.parametrize("value", ["", "5 minutes", True, {}])
def test_what_means_nothing_is_refused(daemon, value):
    status, body = generate(daemon, value)
    assert status == 400 and set(body) == {"error"} and "keep_alive" in body["error"]


def test_somebody_elses_zero_cuts_no_stream(daemon):
    chat = {"model": "slow", "messages": [{"role": "user", "content": "hi"}]}
    stream = urllib.request.urlopen(urllib.request.Request(
        daemon.url + "/api/chat", json.dumps(chat).encode()), timeout=20)
    lines = [json.loads(stream.readline())]
    assert daemon.post("/api/generate", {"model": "slow", "prompt": "", "keep_alive": 0})[1]["done_reason"] == "unload"
    lines += [json.loads(line) for line in stream]
    assert sum(line["message"]["content"] == "x" for line in lines) == 40
    assert lines[-1]["done"] is True and "error" not in lines[-1]
    until(lambda: left(daemon, daemon.slow) is None, 5, "the unloading")
