"""Drill: the gateway's worker, or the supervisor, gets no more descriptors while it serves. What runs goes on, what
comes meanwhile waits or is told, nobody spins, and all is well once there are some again."""

import os
import resource
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from blazar.supervisor.gateway import LAUNCHER
from tests.support.crowd import SCENARIO, TEXT
from tests.support.daemon import Daemon
from tests.support.soak.questions import Question, ask
from tests.support.soak.watch import Held, settled
from tests.support.waiting import until

LOW = 1024
"""Files that most systems let a program open that does not ask for more."""
STARVED = 3.0
"""Seconds without descriptors."""
BUSY = 0.6
"""Of a core, what the process may use of it in that time."""


@pytest.fixture
def daemon(tmp_path):
    with Daemon(tmp_path, LAUNCHER, slots=16) as daemon:
        daemon.model = daemon.install("words", **{**SCENARIO, "pause": 0.12})
        daemon.quick = daemon.install("quick", **{**SCENARIO, "pause": 0.01})
        daemon.other = daemon.install("other")
        with low_limit():
            daemon.start()
        yield daemon


@contextmanager
def low_limit():
    """What is started here may open few files unless it asks for as many as it may."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(LOW, before[1] // 2), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def held(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def at_rest(pid):
    return settled(lambda: [Held.by(pid)])[0].descriptors


def used(pid):
    """Seconds of the processor."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def starved(pid):
    """No descriptor more than it has now."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(highest + 1, held(pid)), before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def question(daemon, words, model=None):
    return ask(daemon.port, Question("openai", True, model or daemon.model, words, 50), "")


def asked_of_engine(daemon):
    return [request["method"] for request in daemon.requests(daemon.model)].count("POST")


def works(daemon):
    return question(daemon, f"{time.monotonic()}", daemon.quick).text == TEXT


def open_files(pid):
    """How many a process may open, and how many it could ask for."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    fields = next(line for line in lines if line.startswith("Max open files")).split()
    return int(fields[3]), int(fields[4])


def test_of_the_worker(daemon):
    """Both have asked for as many as they may have: the limit of a shell is one of 1,024."""
    assert works(daemon)
    worker, = daemon.status()["gateway"]["workers"]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert open_files(daemon.process.pid) == open_files(worker) == (most, most)
    before = at_rest(worker)
    with ThreadPoolExecutor(24) as pool:
        running = [pool.submit(question, daemon, f"running {number}") for number in range(8)]
        until(lambda: asked_of_engine(daemon) == 8, 20, "eight streams")
        with starved(worker):
            began = used(worker)
            late = [pool.submit(question, daemon, f"late {number}") for number in range(8)]
            time.sleep(STARVED)
            assert used(worker) - began < BUSY * STARVED, "it does not spin"
            assert [stream.result().text for stream in running] == [TEXT] * 8
            log = daemon.gateway_log()
        outcomes = [stream.result() for stream in late]
    assert {outcome.kind for outcome in outcomes} <= {"whole", "refused", "told"}, outcomes
    assert all(outcome.text == TEXT for outcome in outcomes if outcome.kind == "whole")
    assert log.count("no connection can be accepted: Too many open files") == 1 and "Traceback" not in log, log
    assert works(daemon)
    until(lambda: held(worker) <= before + 1, 10, "its descriptors")
    assert daemon.status()["gateway"]["workers"] == [worker]


def test_of_the_supervisor(daemon):
    """It cannot start a child, or take a connection; what is loaded serves."""
    pid = daemon.process.pid
    assert works(daemon)
    before = at_rest(pid)
    with starved(pid):
        began = used(pid)
        status, answer = daemon.post("/api/generate", {"model": daemon.other, "prompt": "hi", "stream": False})
        assert status == 503 and "file descriptor" in answer["error"], answer
        assert works(daemon)
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(daemon.paths.control_socket))
            time.sleep(STARVED)
        assert used(pid) - began < BUSY * STARVED
        assert daemon.log().count("Too many open files") < 20
    assert daemon.post("/api/generate", {"model": daemon.other, "prompt": "hi", "stream": False})[0] == 200
    assert daemon.post("/api/generate", {"model": daemon.other, "keep_alive": 0})[0] == 200
    until(lambda: daemon.state(daemon.other) == "absent", 20)
    until(lambda: held(pid) <= before + 1, 10, "its descriptors")
    assert daemon.stop() == 0
