"""Drill: every process is killed at a random moment under 64 streams. Each answer is whole or seen to be cut, what a
client was told is kept is there, the daemon serves again, and what it holds at rest does not grow.

DRILL_ROUNDS asks for more rounds, DRILL_SEED for other moments.
"""

import http.client
import os
import random
import signal
import time
from contextlib import suppress

import pytest

from blazar.models.api_usage import ApiUsage
from blazar.models.base import close_database, open_database
from blazar.supervisor.gateway import LAUNCHER
from tests.support.crowd import SCENARIO, STREAMS, TEXT, Crowd
from tests.support.daemon import DAEMONS
from tests.support.soak.questions import Question, ask
from tests.support.soak.watch import MIB, Held, pss, settled
from tests.support.waiting import until

ROUNDS = int(os.environ.get("DRILL_ROUNDS", "1"))
SEED = os.environ.get("DRILL_SEED", "9")
STORED = 6
"""Clients besides the streams, whose answers are kept."""
GROWTH = 8
"""MiB by which a process may have grown over all rounds."""
SPARE = 1
"""Descriptors and threads that may just be on their way."""


@pytest.fixture(params=[pytest.param("tcp", marks=pytest.mark.slow), pytest.param("unix", marks=pytest.mark.debian)])
def daemon(request, tmp_path):
    keys = [{"name": "ann", "key": "sk-ann"}]
    with DAEMONS[request.param](tmp_path, LAUNCHER, slots=STREAMS + STORED, keys=keys) as daemon:
        daemon.key = "sk-ann"
        daemon.model = daemon.install("words", **SCENARIO)
        daemon.start()
        daemon.settings["port"] = daemon.port
        yield daemon


def works(daemon):
    """Whether a whole answer can be had, which may need a new child."""
    outcome = ask(daemon.port, Question("openai", True, daemon.model, f"again {time.monotonic()}", 50), daemon.key)
    return outcome.kind == "whole" and outcome.text == TEXT


def noted(daemon):
    """Requests in the database."""
    open_database(daemon.paths.database)
    try:
        return sum(row["requests"] for row in ApiUsage.since(""))
    finally:
        close_database()


def at_rest(daemon):
    """What supervisor, gunicorn and worker hold once no model is loaded."""
    assert daemon.post("/api/generate", {"model": daemon.model, "keep_alive": 0})[0] == 200
    until(lambda: daemon.state(daemon.model) == "absent", 20, "the end of the child")
    gateway = daemon.status()["gateway"]
    pids = [daemon.process.pid, gateway["pid"], *gateway["workers"]]
    return settled(lambda: [Held.by(pid) for pid in pids]), [pss(pid) for pid in pids]


VICTIMS = {
    "child": lambda status: next((child["pid"] for child in status["children"] if child["pid"]), 0),
    "worker": lambda status: status["gateway"]["workers"][0],
    "gunicorn": lambda status: status["gateway"]["pid"],
}


def kill_one(daemon, who, after):
    """SIGKILL after so many seconds under the crowd; the crowd, when all its clients have come to an end."""
    victim = VICTIMS[who](daemon.status())
    with Crowd(daemon, daemon.model, STORED) as crowd:
        time.sleep(after)
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    return crowd


def judge(daemon, crowd):
    assert len(crowd.outcomes) == STREAMS and crowd.silently_cut() == []
    until(lambda: works(daemon), 30, "a whole answer after it")
    for id, answer in crowd.kept.items():
        assert daemon.get(f"/v1/responses/{id}") == (200, answer), "what was told to be kept is there"


def test_each_process_at_a_random_moment(daemon):
    chance = random.Random(SEED)
    with Crowd(daemon, daemon.model, STORED) as crowd:
        pass
    assert crowd.kinds() == {"whole": STREAMS} and len(crowd.kept) == STORED
    held, memory = at_rest(daemon)
    kept = dict(crowd.kept)
    for _ in range(ROUNDS):
        for who in chance.sample(list(VICTIMS), len(VICTIMS)):
            assert works(daemon)
            before = noted(daemon)
            crowd = kill_one(daemon, who, chance.uniform(0.1, 1.2))
            judge(daemon, crowd)
            assert noted(daemon) >= before > 0
            kept |= crowd.kept
    now, later = at_rest(daemon)
    for name, first, last, less, more in zip(("supervisor", "gunicorn", "worker"), held, now, memory, later,
                                             strict=True):
        assert last.descriptors <= first.descriptors + SPARE, name
        assert last.threads <= first.threads + SPARE, name
        assert more - less < GROWTH * MIB, name
    for id, answer in kept.items():
        assert daemon.get(f"/v1/responses/{id}") == (200, answer)
    assert "Traceback" not in daemon.log()


def test_the_supervisor_at_a_random_moment(daemon):
    chance = random.Random(SEED)
    for _ in range(ROUNDS):
        assert works(daemon)
        old, before = daemon.tree(), noted(daemon)
        with Crowd(daemon, daemon.model, STORED) as crowd:
            time.sleep(chance.uniform(0.1, 1.2))
            daemon.kill()
            daemon.wait_gone(old, 15)
        assert crowd.silently_cut() == []
        daemon.start()
        judge(daemon, crowd)
        assert noted(daemon) >= before > 0
    assert daemon.stop() == 0
    assert daemon.tree() == []
    with pytest.raises((OSError, http.client.HTTPException)):
        daemon.get("/api/version")
