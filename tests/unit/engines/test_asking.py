"""Programs that are asked about themselves, also those that misbehave."""

import time

import pytest

from blazar.engines.asking import SIZE_LIMIT, ask
from blazar.supervisor import processes
from tests.support.waiting import until

ENV = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "BLAZAR_REGISTRY_TOKEN": "hidden", "LD_LIBRARY_PATH": "/lib/x"}


def test_both_streams_are_heard_whatever_the_exit_code():
    assert ask(("sh", "-c", "echo out; echo err >&2; exit 3"), ENV, {}) == "out\nerr\n"


def test_it_sees_only_what_it_needs():
    heard = dict(line.partition("=")[::2] for line in ask(("env",), ENV, {"GGML_X": "1"}).splitlines())
    assert heard.pop("PATH") == ENV["PATH"] and heard.pop("LD_LIBRARY_PATH") == "/lib/x"
    assert heard == {"HOME": "/nowhere", "LC_ALL": "C.UTF-8", "COLUMNS": "160", "GGML_X": "1"}


def test_who_does_not_end_is_ended(tmp_path):
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="within 1 s"):
        ask(("sh", "-c", f"sleep 60 & echo $! > {tmp_path}/pid; wait"), ENV, {}, time_limit=1.0)
    assert time.monotonic() - began < 8
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not processes.is_alive(pid), 5, "the end of its helper")


def test_who_says_too_much_is_cut_off():
    assert len(ask(("yes",), ENV, {})) == SIZE_LIMIT


def test_a_helper_that_stays_behind_is_ended_with_it(tmp_path):
    assert ask(("sh", "-c", f"sleep 60 > /dev/null 2>&1 & echo $! > {tmp_path}/pid; echo done"), ENV, {}) == "done\n"
    pid = int((tmp_path / "pid").read_text())
    until(lambda: not processes.is_alive(pid), 5, "the end of its helper")


def test_what_is_no_text_is_replaced():
    assert ask(("printf", r"a\377b"), ENV, {}) == "a\ufffdb"
