"""What a request to a loaded model does not do: open a file, ask a database or the supervisor, lock, set a timer.

Seen from inside a process that serves 50 of each kind, once as many were answered before; see
tests/support/hot_requests.py.
"""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon import ROOT
from tests.support.hot_requests import EACH, kinds

KINDS = kinds()
RUN = ("proxy/dispatch.py", "proxy/resources/completions.py", "proxy/stages/quota.py", "proxy/stages/trace.py",
       "proxy/stages/admission.py", "telemetry/audit.py")
"""Some of what has to run, or nothing was seen."""
HARMLESS = {"builtins.id"}
"""Events that Python tells of though nothing happens."""
OF_OTHERS = ("threading.py", "queue.py", "sqlite3/dbapi2.py", "peewee.py", "subprocess.py", "gevent/lock.py",
             "gevent/timeout.py", "logging/__init__.py", "blazar/control.py", "blazar/proxy/supervisor.py")
"""What locks, asks, sets timers, or writes logs, which takes a lock too."""
THAT_LOCK = {"_thread", "threading", "queue", "multiprocessing", "gevent.lock", "gevent.queue", "concurrent.futures"}
OF_GUNICORN = {"RLock.acquire", "RLock.release"}
"""What its environ of an unusual head costs: it looks up a logger."""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    done = subprocess.run([sys.executable, "-P", "-m", "tests.support.hot_requests", tmp_path_factory.mktemp("hot")],
                          env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(params=KINDS)
def watched(told, request):
    seen = told[request.param]
    assert seen["answers"] == len(KINDS[request.param]) * EACH
    assert all(any(module.endswith(file) for module in seen["modules"]) for file in RUN), seen["modules"]
    assert any(module.endswith("gunicorn/http/parser.py") for module in seen["modules"]) == (request.param == "unusual")
    return seen


def test_no_file_is_opened_and_no_database_process_or_connection(watched):
    """Python tells of each of these; of what is written to a file that is open it does not."""
    assert set(watched["audited"]) <= HARMLESS and watched["connections"] == 0


def test_all_that_is_written_is_one_audit_line_a_request(watched):
    assert watched["builtins"]["posix.write"] == watched["lines"] == watched["answers"]


def test_no_timer_is_set(watched):
    assert [name for name in watched["builtins"] if name.endswith("timer")] == []
    assert [module for module in watched["modules"] if module.endswith("gevent/timeout.py")] == []


def test_no_lock_is_taken(told):
    assert [name for name in told["ordinary"]["builtins"] if "lock" in name.lower()] == []
    assert {name for name in told["unusual"]["builtins"] if "lock" in name.lower()} <= OF_GUNICORN


def test_nothing_runs_that_locks_or_asks_somebody(told):
    assert [module for module in told["ordinary"]["modules"] if module.endswith(OF_OTHERS)] == []


def test_nothing_that_runs_could_lock(told):
    """Nor does it import what could."""
    for file in {Path(module) for seen in told.values() for module in seen["modules"] if "/blazar/" in module}:
        for node in ast.walk(ast.parse(file.read_text())):
            names = {alias.name for alias in node.names} if isinstance(node, ast.Import) else \
                {node.module} if isinstance(node, ast.ImportFrom) else set()
            assert not names & THAT_LOCK, f"{file}: {names}"
