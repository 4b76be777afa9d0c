"""Tokens of a day in the real daemon: counted through the death of the gateway, and of the daemon."""

import json
import os
import signal
import urllib.error
import urllib.request

import pytest

from blazar.models.api_usage import ApiUsage
from blazar.models.base import close_database, open_database
from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import Daemon
from tests.support.waiting import until

USED = 8
"""Tokens of one answer of the stub engine."""


def ask(daemon, most):
    """The status of a question that may use `most` tokens, and the message of its error."""
    body = json.dumps({"model": "m", "max_tokens": most, "messages": [{"role": "user", "content": "hi"}]}).encode()
    request = urllib.request.Request(daemon.url + "/v1/chat/completions", body, {"Authorization": "Bearer sk-ann"})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())["error"]["message"]


@pytest.fixture
def daemon(tmp_path):
    keys = [{"name": "ann", "key": "sk-ann", "daily_tokens": 1000}]
    with Daemon(tmp_path, launcher=LAUNCHER, keys=keys) as daemon:
        daemon.install("m")
        yield daemon.start()


def noted(daemon):
    open_database(daemon.paths.database)
    try:
        return [(row["key"], row["requests"], row["prompt_tokens"] + row["completion_tokens"])
                for row in ApiUsage.every()]
    finally:
        close_database()


def test_they_outlive_the_gateway_and_the_daemon(daemon):
    for _ in range(3):
        assert ask(daemon, 10)[0] == 200
    until(lambda: noted(daemon) == [("ann", 3, 3 * USED)])
    worker, = daemon.status()["gateway"]["workers"]
    os.kill(worker, signal.SIGKILL)
    until(lambda: daemon.status()["gateway"]["workers"] not in ([], [worker]))
    status, said = ask(daemon, 990)
    assert status == 429 and f"used or reserved {3 * USED} today" in said
    assert ask(daemon, 10)[0] == 200

    assert daemon.stop() == 0
    assert noted(daemon) == [("ann", 4, 4 * USED)], "the last second is not lost in an orderly stop"
    daemon.start()
    status, said = ask(daemon, 990)
    assert status == 429 and f"used or reserved {4 * USED} today" in said
