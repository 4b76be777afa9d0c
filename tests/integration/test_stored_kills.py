"""kill -9 in the middle of whatever is kept for OpenAI's clients: what was committed is there, nothing by half, and
nothing is left behind."""

import contextlib
import io
import json
import os
import signal
import socket
import sqlite3
import time

import pytest

from blazar.control import connect
from blazar.paths import Paths
from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until

openai = pytest.importorskip("openai")
httpx = pytest.importorskip("httpx")

MODEL = "tiny:f32"
MESSAGES = [{"role": "user", "content": "hi"}]
LONG = {"model": MODEL, "messages": MESSAGES, "max_tokens": 3000, "temperature": 0, "stream": True}
LONG_RESPONSE = {"model": MODEL, "input": "hi", "max_output_tokens": 3000, "temperature": 0, "stream": True}
LINES = 3000
WORDS = "x" * 8000


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("kills"))
    shell.ok("pull", str(tiny_gguf(shell.home / "tiny.gguf")), "--name", MODEL)
    shell.start()
    yield shell
    shell.stop()


def paths(daemon):
    return Paths(daemon.home / ".local" / "share" / "blazar")


def client(daemon):
    return openai.OpenAI(base_url=f"{daemon.url}/v1", api_key="none", max_retries=0, timeout=60)


def workers(daemon):
    link = connect(paths(daemon).control_socket)
    try:
        return link.ask("status", 20)["gateway"]["workers"]
    finally:
        link.close()


def kill_worker(daemon):
    """SIGKILL for the process that has the clients; returns when another one serves."""
    before = workers(daemon)
    os.kill(before[0], signal.SIGKILL)
    until(lambda: workers(daemon) not in ([], before), 60, "a new worker")
    until(lambda: answers(daemon), 60, "an answer of the new worker")


def answers(daemon):
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"{daemon.url}/v1/models", timeout=5).status_code == 200


def kill_daemon(daemon):
    daemon.kill()
    daemon.start()


KILLS = {"worker": kill_worker, "daemon": kill_daemon}


@pytest.fixture(params=KILLS)
def kill(request, daemon):
    return lambda: KILLS[request.param](daemon)


def rest_of(stream):
    """What still comes of a stream, however it ends."""
    found = []
    with contextlib.suppress(httpx.HTTPError, openai.APIError):
        found.extend(stream)
    return found


def nothing_is_left(daemon):
    """The folder of files has what is listed, and nothing else."""
    listed = {file.id: file.bytes for file in client(daemon).files.list()}
    assert {file.name: file.stat().st_size for file in paths(daemon).files.iterdir()} == listed


def test_in_the_middle_of_an_upload(daemon, kill):
    kept = client(daemon).files.create(file=("kept.jsonl", io.BytesIO(b"kept\n")), purpose="batch")
    head = (b"--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
            b"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"half.jsonl\"\r\n\r\n")
    with socket.create_connection(("127.0.0.1", int(daemon.url.rpartition(":")[2])), timeout=30) as sock:
        sock.sendall(b"POST /v1/files HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n"
                     b"Content-Type: multipart/form-data; boundary=b\r\n\r\n" + head + b"x" * (3 << 20))
        until(lambda: [file for file in paths(daemon).files.glob(".file-*") if file.stat().st_size], 30, "its start")
        kill()
        with contextlib.suppress(OSError):
            assert not sock.recv(100).startswith(b"HTTP/1.1 200"), "it was not kept"
    sdk = client(daemon)
    assert "half.jsonl" not in [file.filename for file in sdk.files.list()]
    assert sdk.files.content(kept.id).read() == b"kept\n"
    sdk.files.delete(sdk.files.create(file=("a.jsonl", io.BytesIO(b"a\n")), purpose="batch").id)
    nothing_is_left(daemon)


def test_in_the_middle_of_a_response(daemon, kill):
    sdk = client(daemon)
    first = sdk.responses.create(model=MODEL, input="One.", max_output_tokens=4)
    stream = sdk.responses.create(**LONG_RESPONSE, previous_response_id=first.id)
    id = next(iter(stream)).response.id
    next(event for event in stream if event.type == "response.output_text.delta")
    kill()
    rest = rest_of(stream)
    assert not rest or rest[-1].type == "response.output_text.delta" or rest[-1].response.status == "failed"
    assert not [event for event in rest if event.type == "response.failed" and event.response.store]
    sdk = client(daemon)
    with pytest.raises(openai.NotFoundError):
        sdk.responses.retrieve(id)
    assert sdk.responses.retrieve(first.id) == first
    assert sdk.responses.create(model=MODEL, input="Two.", max_output_tokens=4, previous_response_id=first.id).id


def test_in_the_middle_of_a_stored_completion(daemon, kill):
    sdk = client(daemon)
    first = sdk.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=4, store=True, metadata={"a": "b"})
    before = [one.id for one in sdk.chat.completions.list()]
    stream = sdk.chat.completions.create(**LONG, store=True)
    id = next(iter(stream)).id
    next(stream)
    kill()
    assert "stop" not in [choice.finish_reason for piece in rest_of(stream) for choice in piece.choices]
    sdk = client(daemon)
    assert [one.id for one in sdk.chat.completions.list()] == before and first.id in before and id not in before
    found = sdk.chat.completions.retrieve(first.id)
    assert (found.choices[0].message.content, found.metadata) == (first.choices[0].message.content, {"a": "b"})


def test_at_the_end(daemon, kill):
    """Once its client has the last event, a response is kept, and a completion that is to be stored."""
    told = list(client(daemon).responses.create(**{**LONG_RESPONSE, "max_output_tokens": 8}))[-1].response
    pieces = list(client(daemon).chat.completions.create(**{**LONG, "max_tokens": 8}, store=True))
    kill()
    sdk = client(daemon)
    assert told.store is True and sdk.responses.retrieve(told.id) == told
    found = sdk.chat.completions.retrieve(pieces[0].id)
    assert found.choices[0].message.content == "".join(piece.choices[0].delta.content or "" for piece in pieces
                                                       if piece.choices)


def batch_of(daemon, count):
    sdk = client(daemon)
    text = "".join(json.dumps({"custom_id": f"r{number}", "method": "POST", "url": "/v1/chat/completions",
                               "body": {"model": MODEL, "messages": MESSAGES, "max_tokens": 4}}) + "\n"
                   for number in range(count))
    file = sdk.files.create(file=("requests.jsonl", io.BytesIO(text.encode())), purpose="batch")
    return sdk.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h").id


def ended(daemon, id):
    return until(lambda: (found := client(daemon).batches.retrieve(id)).status == "completed" and found, 120, "its end")


def test_in_the_middle_of_a_batch(daemon):
    """The worker alone; test_batches.py has the daemon."""
    id = batch_of(daemon, 12)
    until(lambda: client(daemon).batches.retrieve(id).request_counts.completed >= 2, 60, "two answers")
    kill_worker(daemon)
    done = ended(daemon, id)
    told = [json.loads(line) for line in client(daemon).files.content(done.output_file_id).text.splitlines()]
    assert [one["custom_id"] for one in told] == [f"r{number}" for number in range(12)]


def test_while_an_output_file_is_written(daemon):
    with client(daemon).chat.completions.create(**LONG) as stream:  # the batch waits while somebody uses the model
        next(iter(stream))
        id = batch_of(daemon, LINES)
        until(lambda: client(daemon).batches.retrieve(id).status == "in_progress", 60, "the check of its file")
        with sqlite3.connect(paths(daemon).database, timeout=30) as database:
            database.executemany("INSERT INTO batch_answer (batch, line, failed, text) VALUES (?, ?, ?, ?)", [
                (id, number, False, json.dumps({"custom_id": f"r{number}", "words": WORDS}))
                for number in range(1, LINES)])
    deadline = time.monotonic() + 60
    while not list(paths(daemon).files.glob(".file-*")):  # it is there for a moment only
        assert time.monotonic() < deadline, "no output file was begun"
    daemon.kill()
    daemon.start()
    done = ended(daemon, id)
    told = [json.loads(line) for line in client(daemon).files.content(done.output_file_id).text.splitlines()]
    assert [one["custom_id"] for one in told] == [f"r{number}" for number in range(LINES)]
    assert all(one["words"] == WORDS for one in told[1:])
    nothing_is_left(daemon)
