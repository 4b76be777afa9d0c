"""Drill: the clock of the machine goes back an hour, or anywhere, and comes back, while the daemon serves. Limits,
idling, counts and logs go on as if nothing had happened."""

import json
import shutil
import subprocess
import sys
import time
from datetime import datetime

import pytest

from blazar.models.api_usage import ApiUsage
from blazar.models.base import close_database, open_database
from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import Daemon
from tests.support.turned_clock import TurnedClock
from tests.support.waiting import until

MESSAGES = [{"role": "user", "content": "hi"}]
USED = 8
"""Tokens of one answer of the stub engine."""
IDLE = 3
"""Seconds after which a model is unloaded."""


@pytest.fixture
def clock(tmp_path, monkeypatch):
    clock = TurnedClock(tmp_path)
    for name, value in clock.environment.items():
        monkeypatch.setenv(name, value)
    clock.turn(-3600)
    told = subprocess.check_output([sys.executable, "-c", "import time; print(time.time())"])
    clock.turn(0)
    assert abs(float(told) - time.time() + 3600) < 60, "it is not deceived"
    return clock


@pytest.fixture
def daemon(tmp_path, clock):
    """The gateway is given the clock too: Blazar itself hands no LD_PRELOAD on."""
    launcher = [shutil.which("env"), *(f"{name}={value}" for name, value in clock.environment.items()), *LAUNCHER]
    keys = [{"name": "day", "key": "sk-day", "daily_tokens": 1000}, {"name": "rpm", "key": "sk-rpm", "rpm": 4},
            {"name": "free", "key": "sk-free"}]
    with Daemon(tmp_path, launcher, keys=keys, idle_timeout_secs=IDLE) as daemon:
        daemon.model = daemon.install("m")
        yield daemon.start()


def asked(daemon, key, most=10, **more):
    daemon.key = f"sk-{key}"
    return daemon.post("/v1/chat/completions", {"model": "m", "max_tokens": most, "messages": MESSAGES, **more})


def tokens(daemon, key):
    open_database(daemon.paths.database)
    try:
        return sum(row["prompt_tokens"] + row["completion_tokens"] for row in ApiUsage.since("") if row["key"] == key)
    finally:
        close_database()


WAYS = {
    # the hour at which it begins, the seconds it is set beside that one after the other, answers that count that day
    "an hour back": (12, [-3600, 0], 4),
    "forward, far back, and home": (12, [3600, -86400 * 400, 0], 4),
    "back over midnight": (0.5, [-3600, 0], 3),
}


@pytest.mark.parametrize("way", [pytest.param(way, marks=[pytest.mark.debian] if number else [])
                                 for number, way in enumerate(WAYS)])
def test_it_goes_away_and_comes_back(daemon, clock, way):
    hour, steps, of_today = WAYS[way]
    home = int(hour * 3600 - time.time() % 86400)
    clock.turn(home)
    for number in range(2):
        assert asked(daemon, "day", seed=number)[0] == 200
        assert asked(daemon, "rpm", seed=number)[0] == 200
    until(lambda: tokens(daemon, "day") == 2 * USED, 20)
    workers = daemon.status()["gateway"]["workers"]
    lines = 4
    for number, seconds in enumerate(steps):
        clock.turn(home + seconds)
        assert asked(daemon, "day", seed=10 + number)[0] == 200
        assert asked(daemon, "free", seed=20 + number)[0] == 200
        lines += 2
        until(lambda number=number: tokens(daemon, "day") == (3 + number) * USED, 20)
    assert [asked(daemon, "rpm", seed=30 + number)[0] for number in range(3)] == [200, 200, 429], "a minute stays one"
    lines += 3
    status, answer = asked(daemon, "day", most=1000)
    lines += 1
    assert status == 429 and f"used or reserved {of_today * USED} today" in answer["error"]["message"], answer
    audit = until(lambda: len(found := daemon.paths.audit_log.read_bytes().splitlines()) == lines and found, 20)
    assert all(json.loads(line)["status"] in (200, 429) for line in audit)
    began = time.monotonic()
    until(lambda: daemon.state(daemon.model) == "absent", 30, "the unloading")
    assert time.monotonic() - began < IDLE + 10
    assert daemon.status()["gateway"]["workers"] == workers, "nobody was taken for hung"
    assert "Traceback" not in daemon.log() + daemon.gateway_log()
    assert daemon.stop() == 0


@pytest.mark.slow
def test_idling_is_neither_cut_short_nor_prolonged(daemon, clock):
    assert asked(daemon, "free")[0] == 200
    began = time.monotonic()
    clock.turn(3600)
    until(lambda: daemon.get("/v1/models")[0] == 200)
    assert daemon.state(daemon.model) == "ready" or time.monotonic() - began >= IDLE
    clock.turn(-3600)
    until(lambda: daemon.state(daemon.model) == "absent", 30)
    assert IDLE - 0.5 <= time.monotonic() - began < IDLE + 10
    assert asked(daemon, "free", seed=2)[0] == 200


@pytest.mark.slow
def test_what_is_kept_stays_when_the_clock_goes_back_and_the_daemon_is_started_anew(daemon, clock):
    daemon.key = "sk-free"
    status, kept = daemon.post("/v1/responses", {"model": "m", "input": "hi"})
    assert status == 200 and kept["store"] is True
    clock.turn(-3600)
    assert daemon.stop() == 0
    daemon.start()
    assert daemon.get(f"/v1/responses/{kept['id']}") == (200, kept)
    status, answer = daemon.post("/v1/responses", {"model": "m", "input": "go on", "previous_response_id": kept["id"]})
    assert status == 200, answer
    assert abs(answer["created_at"] - datetime.now().timestamp() + 3600) < 120
