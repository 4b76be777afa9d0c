"""Uploads, made models and pulls go on beside a stream of tokens, which must not wait for them."""

import hashlib
import http.client
import json
import threading
import time

import pytest

from blazar.supervisor.gateway import LAUNCHER
from tests.servers.registry import Registry
from tests.support.daemon import Daemon
from tests.support.raw_gguf import STRING, head, pair, tensor, text, value
from tests.support.stub_model import install_stub

TOKENS, PAUSE = 300, 0.01
LIMIT = 0.5
"""Seconds between two tokens on a busy machine."""


@pytest.fixture
def daemon(tmp_path, monkeypatch):
    with Registry() as registry, Daemon(tmp_path, tuple(LAUNCHER)) as daemon:
        monkeypatch.setenv("BLAZAR_REGISTRY_BASE", registry.base)
        events = [json.dumps({"choices": [{"index": 0, "delta": {"content": "x"}}]})] * TOKENS
        chunks = [f"data: {event}\n\n" for event in [*events, "[DONE]"]]
        install_stub(daemon.paths, "solo", tmp_path, chunks=chunks, pause=PAUSE)
        yield daemon.start()


def ask(daemon, method, path, body):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    try:
        connection.request(method, path, body if isinstance(body, bytes) else json.dumps(body).encode())
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def worst_gap(daemon, begun):
    """The longest wait between two pieces of a stream."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)
    body = {"model": "solo", "messages": [{"role": "user", "content": "x"}], "stream": True}
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    answer = connection.getresponse()
    answer.read1(1)
    begun.set()
    worst, last, seen = 0.0, time.monotonic(), b""
    while piece := answer.read1(65536):
        now = time.monotonic()
        worst, last = max(worst, now - last), now
        seen = (seen + piece)[-40:]
    connection.close()
    assert b"[DONE]" in seen
    return worst


def heavy_model():
    """A header with as much text as a file may bring along."""
    pairs = [value("general.architecture", "llama"), value("general.file_type", 2)]
    pairs += [pair(f"k{number}", STRING, text(b"\xff" * (1 << 20))) for number in range(2)]
    pairs += [pair("general.license", STRING, text(b"\x01" * (1 << 20))),
              pair("tokenizer.chat_template", STRING, text(b"\x02" * ((1 << 20) - 64)))]
    header = head(1, len(pairs)) + b"".join(pairs) + tensor("t", [64])
    return header + b"\0" * (-len(header) % 32 + 256)


def test_tokens_flow_beside_uploads_creates_and_shows(daemon):
    begun, ended, answers = threading.Event(), threading.Event(), []
    ask(daemon, "POST", "/v1/chat/completions", {"model": "solo", "messages": [{"role": "user", "content": "x"}]})

    def upload(number):
        begun.wait()
        while not ended.is_set():
            content = bytes([number]) * (32 << 20)
            digest = hashlib.sha256(content).hexdigest()
            answers.append(ask(daemon, "POST", f"/api/blobs/sha256:{digest}", content)[0])
            (daemon.paths.uploads / digest).unlink()

    def make():
        content = heavy_model()
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        begun.wait()
        answers.append(ask(daemon, "POST", f"/api/blobs/{digest}", content)[0])
        while not ended.is_set():
            answers.append(ask(daemon, "POST", "/api/create", {"model": "heavy", "files": {"a.gguf": digest}})[0])
            answers.append(ask(daemon, "POST", "/api/show", {"model": "heavy"})[0])
            answers.append(ask(daemon, "GET", "/api/tags", b"")[0])

    threads = [threading.Thread(target=upload, args=(number,)) for number in range(3)] + [threading.Thread(target=make)]
    for thread in threads:
        thread.start()
    worst = worst_gap(daemon, begun)
    ended.set()
    for thread in threads:
        thread.join()
    assert set(answers) <= {200, 201} and len(answers) > 5, answers
    assert worst < LIMIT
