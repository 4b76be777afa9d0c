"""Limits in the real daemon: those of a minute outlive the gateway worker, those of a day the daemon too."""

import json
import os
import signal
import sqlite3
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from blazar.models.api_usage import ApiUsage
from blazar.models.base import close_database, open_database
from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import Daemon
from tests.support.waiting import until

NUMBERS = {int(signal.SIGKILL): "killed", int(signal.SIGHUP): "reloaded"}
USED = 8
"""Tokens of one answer of the stub engine."""


def ask(daemon, most, key="sk-ann"):
    """The status of a question that may use `most` tokens, and the message of its error."""
    body = json.dumps({"model": "m", "max_tokens": most, "messages": [{"role": "user", "content": "hi"}]}).encode()
    request = urllib.request.Request(daemon.url + "/v1/chat/completions", body, {"Authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())["error"]["message"]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    keys = [{"name": "ann", "key": "sk-ann", "daily_tokens": 1000}, {"name": "free", "key": "sk-free"}]
    for number in NUMBERS:
        keys += [{"name": f"bob{number}", "key": f"sk-bob{number}", "rpm": 3},
                 {"name": f"eve{number}", "key": f"sk-eve{number}", "tpm": 100}]
    with Daemon(tmp_path_factory.mktemp("daily"), launcher=LAUNCHER, keys=keys) as daemon:
        daemon.install("m")
        yield daemon.start()


def noted(daemon, *keys):
    open_database(daemon.paths.database)
    try:
        return [(row["key"], row["requests"], row["prompt_tokens"] + row["completion_tokens"])
                for row in ApiUsage.since("") if row["key"] in keys]
    finally:
        close_database()


def test_they_outlive_the_gateway_and_the_daemon(daemon):
    for _ in range(3):
        assert ask(daemon, 10)[0] == 200
    until(lambda: noted(daemon, "ann") == [("ann", 3, 3 * USED)])
    worker, = daemon.status()["gateway"]["workers"]
    os.kill(worker, signal.SIGKILL)
    until(lambda: daemon.status()["gateway"]["workers"] not in ([], [worker]))
    status, said = ask(daemon, 990)
    assert status == 429 and f"used or reserved {3 * USED} today" in said
    assert ask(daemon, 10)[0] == 200

    assert daemon.stop() == 0
    assert noted(daemon, "ann") == [("ann", 4, 4 * USED)], "the last second is not lost in an orderly stop"
    daemon.start()
    status, said = ask(daemon, 990)
    assert status == 429 and f"used or reserved {4 * USED} today" in said


@pytest.mark.parametrize("number", NUMBERS, ids=NUMBERS.values())
def test_the_last_minute_outlives_the_worker(daemon, number):
    """SIGHUP makes gunicorn replace its worker, which ends its requests while the next one begins."""
    bob, eve = f"bob{number}", f"eve{number}"
    for _ in range(3):
        assert ask(daemon, 10, f"sk-{bob}")[0] == 200
    assert ask(daemon, 10, f"sk-{eve}")[0] == 200
    until(lambda: noted(daemon, bob, eve) == [(bob, 3, 3 * USED), (eve, 1, USED)])
    worker, = daemon.status()["gateway"]["workers"]
    os.kill(worker if number == signal.SIGKILL else daemon.status()["gateway"]["pid"], number)
    until(lambda: daemon.status()["gateway"]["workers"] not in ([], [worker])
          and worker not in daemon.status()["gateway"]["workers"], 20)
    status, said = ask(daemon, 10, f"sk-{bob}")
    assert status == 429 and "rpm = 3, and has had 3 in the last minute" in said
    status, said = ask(daemon, 97, f"sk-{eve}")
    assert status == 429 and f"used or reserved {USED} in the last minute" in said


def test_a_locked_database_holds_up_no_request(daemon):
    """FC-32: another program keeps the database to itself while keyed requests run in every dialect."""
    assert ask(daemon, 10, "sk-free")[0] == 200
    until(lambda: noted(daemon, "free"))
    lock = sqlite3.connect(daemon.paths.database, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    try:
        with ThreadPoolExecutor(7) as callers:
            statuses = list(callers.map(lambda number: speak(daemon, number), range(21)))
        assert statuses == [200] * 21
        assert speak(daemon, 0) == 200 and daemon.status()["gateway"]["workers"]
    finally:
        lock.close()
    until(lambda: noted(daemon, "free") == [("free", 23, 23 * USED)], 30)


def speak(daemon, number):
    """The status of a question of its own, so that no other one's answer serves it, in one of three dialects."""
    path = ("/v1/chat/completions", "/api/chat", "/v1/messages")[number % 3]
    body = json.dumps({"model": "m", "max_tokens": 10, "stream": False,
                       "messages": [{"role": "user", "content": f"hi {number}"}]}).encode()
    request = urllib.request.Request(daemon.url + path, body, {"x-api-key": "sk-free"})
    with urllib.request.urlopen(request, timeout=30) as response:
        assert response.read(), "who leaves early is charged by an estimate"
        return response.status
