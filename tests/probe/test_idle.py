"""FC-28: a busy model is neither evicted nor idle, whoever asks for what, and whoever only looks."""

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count, pairwise

import pytest

from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import DAEMONS
from tests.support.transports import BY_END
from tests.support.waiting import until

EVENT = 'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
DONE = "data: [DONE]\n\n"
IDLE = 1.0
MANY = 1 << 20
STORM = 20.0
STARVES = 10.0
"""Seconds without any answer of a model after which it starves. It takes two swaps, of a second each at most, even on
a machine with much else to do."""
WAYS = {
    # how it is asked, more of the question, what a whole answer has, the status of a refusal
    "/v1/chat/completions": ({"stream": True}, EVENT * 4 + DONE, 503),
    "/v1/messages": ({"stream": True, "max_tokens": 9}, "event: message_stop", 529),
    "/api/chat": ({"stream": False}, '"content":"xxxx"', 503),
}


@pytest.fixture(params=BY_END)
def daemon(request, tmp_path):
    with DAEMONS[request.param](tmp_path, launcher=LAUNCHER) as daemon:
        yield daemon


def ask(daemon, model, stream):
    body = json.dumps({"model": model, "stream": stream, "messages": [{"role": "user", "content": "hi"}]}).encode()
    request = urllib.request.Request(daemon.url + "/v1/chat/completions", body)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


def test_1_a_swap_waits_for_the_stream_and_everybody_is_served(daemon):
    one = daemon.install("one", chunks=[EVENT] * 20 + [DONE], pause=0.05)
    two = daemon.install("two")
    daemon.settings["max_loaded_models"] = 1
    daemon.start()
    with ThreadPoolExecutor(3) as pool:
        streamed = pool.submit(ask, daemon, one, True)
        until(lambda: daemon.requests(one)[2:])
        other = pool.submit(ask, daemon, two, False)
        until(lambda: daemon.state(one) == "draining")
        same = pool.submit(ask, daemon, one, True)
        assert streamed.result(30) == same.result(30) == (EVENT * 20 + DONE).encode()
        assert json.loads(other.result(30))["choices"][0]["message"]["content"] == "Hello there."
    assert len(daemon.starts(one)) == 2 and len(daemon.starts(two)) == 1


def test_2_3_and_5_the_clock_of_idling_begins_at_the_end_and_looking_on_does_not_stop_it(daemon):
    """A stream and a buffered answer last longer than the idle time, and each is followed by another question, soon.
    One that the kernel may have taken off the child at once is read more slowly. Somebody looks on all the time."""
    daemon.settings["idle_timeout_secs"] = int(IDLE)
    daemon.install("streamed", chunks=[EVENT] * 20 + [DONE], pause=0.1)
    daemon.install("buffered", chunks=['{"choices":['] + [" "] * 20 + ["]}"], pause=0.1)
    daemon.install("large", body=json.dumps({"choices": ["y" * MANY]}))
    daemon.start()
    over = threading.Event()
    looking = threading.Thread(target=_look, args=(daemon, over))
    looking.start()
    try:
        with ThreadPoolExecutor(3) as pool:
            asked = {"streamed": pool.submit(ask, daemon, "streamed", True),
                     "buffered": pool.submit(ask, daemon, "buffered", False),
                     "large": pool.submit(_read_slowly, daemon, "large")}
            ended = dict(pool.map(lambda name: _again(daemon, name, asked[name]), asked))
        for name, end in ended.items():
            assert len(daemon.starts(f"{name}:f32")) == 1, name
            until(lambda name=name: daemon.state(f"{name}:f32") == "absent", 10, f"the end of {name}")
            assert name == "large" or time.monotonic() - end >= IDLE, name
    finally:
        over.set()
        looking.join()


@dataclass(frozen=True)
class Outcome:
    """What came of one request; times of CLOCK_MONOTONIC."""

    model: str
    path: str
    status: int
    text: str
    retry_after: str | None
    began: float
    ended: float


@pytest.mark.slow
@pytest.mark.parametrize("daemon", ["tcp"], indirect=True)
def test_6_a_storm_of_alternating_requests_is_answered_or_refused_and_neither_model_starves(daemon):
    """Eight clients ask two models by turns, for 20 s; there is room for one of them, and for six that wait for it."""
    daemon.settings |= {"max_loaded_models": 1, "slots": 1, "max_queued": 3, "singleflight": False}
    models = [daemon.install(name, chunks=[EVENT] * 4 + [DONE], pause=0.05) for name in ("one", "two")]
    daemon.start()
    ends = time.monotonic() + STORM
    with ThreadPoolExecutor(8) as pool:
        outcomes = [one for client in pool.map(lambda number: list(_storm(daemon, models, number, ends)), range(8))
                    for one in client]
    for one in outcomes:
        _, whole, busy = WAYS[one.path]
        if one.status == 200:
            assert whole in one.text, one
        else:
            assert one.status == busy and int(one.retry_after) >= 1 and json.loads(one.text)["error"], one
    answered = {model: [one for one in outcomes if one.model == model and one.status == 200] for model in models}
    assert any(one.status != 200 for one in outcomes), "it was no storm"
    for model, answers in answered.items():
        times = [ends - STORM, *sorted(one.ended for one in answers), ends]
        assert max(after - before for before, after in pairwise(times)) < STARVES, model
        assert max(one.ended - one.began for one in answers) < STARVES, model
        assert len(daemon.starts(model)) >= 2, model
    fewer, more = sorted(map(len, answered.values()))
    assert fewer >= more / 2
    until(lambda: daemon.get("/api/requests")[1]["requests"] == [], 10, "an end of all requests")
    assert not any(line.startswith("Traceback") for line in daemon.log().splitlines())


def _storm(daemon, models, number, ends):
    """The outcomes of one client: it asks the one model and the other, in one dialect and another, and has a little
    rest where it is refused, though less than it is told to."""
    paths = list(WAYS)
    for turn in count(number):
        if time.monotonic() > ends:
            return
        one = _outcome(daemon, models[turn % 2], paths[turn % 3])
        yield one
        if one.status != 200:
            time.sleep(0.2)


def _outcome(daemon, model, path):
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], **WAYS[path][0]}
    request = urllib.request.Request(daemon.url + path, json.dumps(body).encode())
    began = time.monotonic()
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, text, retry_after = answer.status, answer.read().decode(), None
    except urllib.error.HTTPError as error:
        status, text, retry_after = error.code, error.read().decode(), error.headers["Retry-After"]
    return Outcome(model, path, status, text, retry_after, began, time.monotonic())


def _again(daemon, name, first):
    """Wait for the answer, ask once more before the idle time has passed; the name, and when that ended."""
    whole = first.result(30)
    assert whole == {"streamed": (EVENT * 20 + DONE).encode(), "buffered": b'{"choices":[' + b" " * 20 + b"]}",
                     "large": json.dumps({"choices": ["y" * MANY]}).encode()}[name]
    time.sleep(IDLE / 2)
    assert name == "large" or ask(daemon, name, name == "streamed") == whole
    return name, time.monotonic()


def _look(daemon, over):
    while not over.wait(0.1):
        for path in ("/healthz", "/metrics", "/api/ps"):
            with urllib.request.urlopen(daemon.url + path, timeout=10) as answer:
                answer.read()


def _read_slowly(daemon, model):
    """A body of MANY bytes, within three seconds."""
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}]}).encode()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
        sock.connect(("127.0.0.1", daemon.port))
        sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        parts = []
        while data := sock.recv(MANY // 60):
            parts.append(data)
            time.sleep(0.05)
    _, _, coded = b"".join(parts).partition(b"\r\n\r\n")
    return _decoded(coded)


def _decoded(coded):
    """The content of a body in chunked coding."""
    whole = b""
    while coded:
        size, _, coded = coded.partition(b"\r\n")
        count = int(size, 16)
        whole, coded = whole + coded[:count], coded[count + 2:]
        if not count:
            break
    return whole
