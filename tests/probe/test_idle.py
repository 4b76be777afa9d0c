"""FC-28: a busy model is neither evicted nor idle, whoever asks for what, and whoever only looks."""

import json
import socket
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import DAEMONS
from tests.support.transports import TRANSPORTS
from tests.support.waiting import until

EVENT = 'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'
DONE = "data: [DONE]\n\n"
IDLE = 1.0
MANY = 1 << 20


@pytest.fixture(params=TRANSPORTS)
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
