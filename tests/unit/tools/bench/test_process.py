"""Processes under measurement: their words, their failures, their end."""

import os
import shutil
import sys

import pytest

from tools.bench import process
from tools.bench.process import Process, StartFailed

pytestmark = pytest.mark.skipif(shutil.which("taskset") is None, reason="there is no taskset; it is in util-linux")
CORE = min(os.sched_getaffinity(0))


def run(tmp_path, script):
    return Process([sys.executable, "-c", script], CORE, tmp_path / "server.log")


def test_a_line_counts_once_it_is_whole(tmp_path):
    log = tmp_path / "server.log"
    server = run(tmp_path, "import sys; print('listening on here', flush=True); print('ready', flush=True, end='');"
                           "sys.stdin.read(); import time; time.sleep(60)")
    try:
        assert server.wait_for(lambda: server.line_after("listening on "), 10) == "here"
        server.wait_for(lambda: log.read_text().endswith("ready"), 10)
        assert server.line_after("rea") == ""
    finally:
        server.stop()


def test_a_process_that_ends_is_quoted(tmp_path):
    server = run(tmp_path, "raise SystemExit('the port is taken')")
    with pytest.raises(StartFailed, match=r"server ended with 1; it said:\nthe port is taken"):
        server.wait_for(lambda: False, 10)


def test_a_process_that_stays_silent_is_given_up(tmp_path):
    server = run(tmp_path, "import time; time.sleep(60)")
    try:
        with pytest.raises(StartFailed, match="does not answer"):
            server.wait_for(lambda: False, 0.05)
    finally:
        server.stop()


def test_it_is_kept_on_its_core(tmp_path):
    server = run(tmp_path, "import time; time.sleep(60)")
    try:
        server.wait_for(lambda: os.sched_getaffinity(server.pid) == {CORE}, 10)
    finally:
        server.stop()


def test_no_answer_is_no_exception_until_one_is_needed():
    address = f"127.0.0.1:{process.free_port()}"
    assert process.get(address, "/") == (0, b"")
    with pytest.raises(StartFailed, match="/stats answered 0"):
        process.get_json(address, "/stats")
