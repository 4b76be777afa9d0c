"""Connections to a child that have gone stale (FC-25): never a failure of the request, never a prompt run twice."""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.support.corpus import Reader
from tests.support.daemon import ROOT
from tests.support.fake_supervisor import endpoint, eventually
from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, is_error_of, post
from tests.support.scripted_child import ScriptedChild, hello_world
from tests.support.transports import BOTH, TRANSPORTS

CHAT = ASK["openai"][0]
POOLED = 8
CHILD = """
import sys, json, signal
from tests.support.scripted_child import ScriptedChild, hello_world
record = open(sys.argv[2], "ab", 0)
def play(talk):
    record.write(json.loads(talk.request.body)["user"].encode() + b"\\n")
    hello_world(talk)
child = ScriptedChild(play, json.loads(sys.argv[1]))
print(json.dumps(child.address), flush=True)
signal.pause()
"""


@pytest.fixture(scope="module", params=BOTH)
def where(request, tmp_path_factory):
    """Where the child of that name listens: `where("child")`."""
    folder = tmp_path_factory.mktemp("sockets")
    return lambda name: 0 if request.param == "tcp" else str(folder / f"{name}.sock")


@pytest.fixture(scope="module")
def shared(tmp_path_factory, where):
    with GatewayUnderTest(tmp_path_factory.mktemp("stale"), child=where("child")) as gateway:
        gateway.supervisor.loaded[MODEL] = gateway.supervisor.loadable[MODEL] = endpoint(
            MODEL, gateway.child.address, slots=POOLED)
        gateway.supervisor.push()
        yield gateway


@pytest.fixture
def gateway(shared):
    yield shared.fresh()
    assert "Traceback" not in shared.supervisor.log()


class Idler:
    """Answers, and closes the connection when it has been idle for `limit` seconds, or as soon as `tire` is called.

    Like an engine, it looks for a request and at the clock from one thread: what it has not read, it has not run.
    """

    def __init__(self, limit: float | None = None) -> None:
        self.runs: list[str] = []
        self._limit = limit
        self._tired, self._wake = os.pipe()

    def tire(self) -> None:
        os.write(self._wake, b"x")

    def __call__(self, talk) -> None:
        self.runs.append(json.loads(talk.request.body)["user"])
        hello_world(talk)
        try:
            came, _, _ = select.select([talk.sock, self._tired], [], [], self._limit)
        except ValueError:
            return  # the child was stopped meanwhile
        if self._tired in came:
            os.read(self._tired, 1)
        if came != [talk.sock]:
            talk.close()


def ask(gateway, name, stream, model=MODEL):
    return gateway.ask("openai", stream=stream, user=name, model=model)


@pytest.mark.parametrize("stream", [False, True])
def test_a_close_that_races_with_the_next_request(gateway, stream):
    """The close comes from 0.4 ms before the request to 0.4 ms after it."""
    idler = gateway.child.play = Idler()
    with gateway.connect() as sock:
        reader = Reader(sock)
        for number in range(60):
            pause = (number % 20) * 0.00004
            before, after = (pause, 0.0) if number % 2 else (0.0, pause)
            body = json.dumps({**ASK["openai"][1], "stream": stream, "user": f"{stream} {number}"}).encode()
            if number:
                closing = threading.Thread(target=lambda pause=before: (time.sleep(pause), idler.tire()))
                closing.start()
                time.sleep(after)
            sock.sendall(post(CHAT, body))
            assert reader.answer().status == 200, number
            if number:
                closing.join()
    assert idler.runs == [f"{stream} {number}" for number in range(60)]


PAUSES = (0.98, 1.0, 1.02, 1.5)
TIMES = 50
"""Each pause is made so often in each mode."""
BETWEEN = 0.003
"""Seconds from one beginning to the next, so that they do not hold each other up."""


@pytest.mark.parametrize("where", TRANSPORTS, indirect=True, scope="module")
def test_a_child_that_closes_after_a_second(shared, where):
    """Each request goes to a model of its own, so many seconds after the first one that this was asked."""
    gateway = shared.fresh()
    plan = [(pause, stream) for _ in range(TIMES) for pause in PAUSES for stream in (False, True)]
    models = [f"m{number}:q4_0" for number in range(len(plan))]
    idler = Idler(limit=1.0)
    failed = []

    def one(model, pause, stream):
        for name in ("first", "second"):
            answer = ask(gateway, f"{model} {name}", stream, model)
            if answer.status != 200 or b"world" not in answer.body:
                failed.append((model, pause, stream, answer))
            if name == "first":
                time.sleep(pause)
    with ScriptedChild(idler, where("tired")) as child:
        gateway.supervisor.installed.extend(models)
        for model in models:
            gateway.supervisor.loaded[model] = gateway.supervisor.loadable[model] = endpoint(model, child.address)
        gateway.supervisor.push()
        eventually(lambda: len(gateway.request("GET", "/api/ps").json()["models"]) > len(models))
        threads = [threading.Thread(target=one, args=(model, *way)) for model, way in zip(models, plan, strict=True)]
        for thread in threads:
            thread.start()
            time.sleep(BETWEEN)
        for thread in threads:
            thread.join()
        opened = child.connections
    for model in models:
        del gateway.supervisor.loaded[model], gateway.supervisor.loadable[model]
    del gateway.supervisor.installed[-len(models):]
    gateway.supervisor.push()
    assert not failed
    assert sorted(idler.runs) == sorted(f"{model} {name}" for model in models for name in ("first", "second"))
    assert len(plan) < opened <= 2 * len(plan), "some found their connection closed"


class Process:
    """A child that can be killed, and that comes back at the same address; `runs` is what all of them ran."""

    def __init__(self, folder, where) -> None:
        self._record = folder / "runs"
        self._where = where

    def start(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", CHILD, json.dumps(self._where), self._record],
                                         cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self.address = json.loads(self._process.stdout.readline())
        if not isinstance(self.address, str):
            self.address, self._where = tuple(self.address), self.address[1]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def runs(self) -> list[str]:
        return self._record.read_text().splitlines()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("asleep", [False, True], ids=["awake", "asleep"])
def test_a_child_that_is_killed_and_comes_back_at_the_same_address(gateway, where, tmp_path, stream, asleep):
    """With 8 idle connections. `asleep`: the gateway sees the requests first, and in the same moment the ends."""
    child = Process(tmp_path, where(f"back {stream} {asleep}"))
    child.start()
    known = gateway.supervisor.loaded[MODEL]
    number = 100 + 2 * stream + asleep
    gateway.supervisor.loaded[MODEL] = gateway.supervisor.loadable[MODEL] = endpoint(
        MODEL, child.address, number, slots=POOLED)
    gateway.supervisor.push()
    try:
        eventually(lambda: ask(gateway, "new", False).status == 200 and "new" in child.runs())
        at_once(gateway, [f"before {index}" for index in range(POOLED)], stream)
        names = [f"after {index}" for index in range(2 * POOLED)]

        def restart():
            child.kill()
            child.start()
            os.kill(gateway.supervisor.worker_pid(), signal.SIGCONT)
        if asleep:
            os.kill(gateway.supervisor.worker_pid(), signal.SIGSTOP)
            at_once(gateway, names, stream, after_sending=restart)
        else:
            restart()
            at_once(gateway, names, stream)
        assert sorted(name for name in child.runs() if name in names) == sorted(names)
    finally:
        os.kill(gateway.supervisor.worker_pid(), signal.SIGCONT)
        child.kill()
        gateway.supervisor.loaded[MODEL] = gateway.supervisor.loadable[MODEL] = known
        gateway.supervisor.push()
        eventually(lambda: ask(gateway, "back", False).status == 200)


def at_once(gateway, names, stream, after_sending=lambda: None):
    socks = [gateway.connect() for _ in names]
    for sock, name in zip(socks, names, strict=True):
        body = {**ASK["openai"][1], "stream": stream, "user": name}
        sock.sendall(post(CHAT, json.dumps(body).encode()))
    after_sending()
    for sock in socks:
        assert Reader(sock).answer().status == 200
        sock.close()


@pytest.mark.parametrize("dialect", ASK)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("says", "most"), [(b"", 2), (b"HTTP/1.1 200 OK\r\nContent-", 1)], ids=["nothing", "half"])
def test_a_child_that_reads_the_request_and_closes(gateway, dialect, stream, says, most):
    """On a connection that was used before: at most one repeat when nothing came, none when something did."""
    assert gateway.ask("openai").status == 200
    del gateway.child.received[:]

    def play(talk):
        talk.send(says)
        talk.close()
    gateway.child.play = play
    answer = gateway.ask(dialect, stream=stream)
    assert answer.status == 502 and "closed the connection before it answered" in is_error_of(dialect, answer)
    assert len(gateway.child.received) <= most
    gateway.child.play = hello_world
    assert gateway.ask(dialect, stream=stream).status == 200
    assert gateway.supervisor.notes("ensure_ready") == [], "a stale connection says nothing about the child"
