"""`blazar events` and `blazar watch` as a person types them, on a terminal and without one."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
import urllib.request

import pytest

from tests.support.shell import BLAZAR, StubShell
from tests.support.waiting import until

ENTER, LEAVE = b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l"


@pytest.fixture
def shell(tmp_path):
    shell = StubShell(tmp_path)
    shell.start()
    yield shell
    shell.stop()


def ask(shell):
    body = json.dumps({"model": "m", "prompt": "hi", "stream": False}).encode()
    with urllib.request.urlopen(urllib.request.Request(shell.url + "/api/generate", body), timeout=60) as answer:
        return json.load(answer)


def test_events_here_and_through_http(shell):
    ask(shell)
    here = shell.ok("events")
    assert [line.split()[1] for line in here.splitlines()] == [
        "gateway_started", "daemon_started", "model_loading", "model_ready"]
    assert shell.ok("events", BLAZAR_HOST=shell.url) == here
    rows = [json.loads(line) for line in shell.ok("events", "--json").splitlines()]
    assert rows[-1]["model"] == "m:f32" and rows[-1]["event"] == "model_ready"
    time.sleep(1)
    assert shell.ok("events", "--since", "0") == ""
    for wrong in ("soon", "-1", "99h"):
        done = shell("events", "--since", wrong)
        assert done.returncode == 2 and "such as 90s" in done.stderr


def test_events_are_followed_over_a_restart_of_the_daemon(shell):
    follow = subprocess.Popen([*BLAZAR, "events", "-f", "--json"], env=shell.env, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    try:
        assert json.loads(follow.stdout.readline())["event"] == "gateway_started"
        shell.stop()
        assert shell.ok("list") is not None
        shell.start()
        kinds = []
        while kinds[-3:] != ["gap", "gateway_started", "daemon_started"]:
            kinds.append(json.loads(follow.stdout.readline())["event"])
        assert kinds.count("gap") == 1
    finally:
        follow.send_signal(signal.SIGINT)
        _, errors = follow.communicate(timeout=30)
    assert follow.returncode == 130 and "Traceback" not in errors


@pytest.mark.parametrize("verb", ["events", "logs"])
def test_who_follows_ends_when_its_reader_has_left_though_nothing_happens(shell, verb):
    follow = subprocess.Popen([*BLAZAR, verb, "-f"], env=shell.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert follow.stdout.readline()
        follow.stdout.close()
        assert follow.wait(60) == 141 and follow.stderr.read() == b""
    finally:
        follow.kill()
        follow.stderr.close()


def test_watch_on_a_terminal_that_cannot_be_drawn_on(shell):
    leader, follower = pty.openpty()
    watch = subprocess.Popen([*BLAZAR, "watch", "--interval", "0.5"], env={**shell.env, "TERM": "dumb"}, stdin=follower,
                             stdout=follower, stderr=follower)
    got = b""
    try:
        while b"no model is loaded" not in got:
            assert select.select([leader], [], [], 60)[0]
            got += os.read(leader, 65536)
    finally:
        watch.kill()
        watch.wait()
        os.close(follower)
        os.close(leader)
    assert b"\x1b" not in got


def test_watch_without_a_terminal(shell):
    ask(shell)
    told = shell.ok("watch", "--once", "--interval", "0.5")
    assert "m:f32  ready  0/1" in told and "model_ready" in told and "\x1b" not in told
    found = json.loads(shell.ok("watch", "--once", "--json", "--interval", "0.5", BLAZAR_HOST=shell.url))
    assert found["loads"] == 1 and found["models"][0]["model"] == "m:f32" and found["memory"] > 0
    assert shell("watch", "--interval", "0").returncode == 2


def test_watch_with_no_daemon(shell):
    done = shell("watch", "--once", BLAZAR_HOST="127.0.0.1:9")
    assert done.returncode == 4 and "no daemon answers" in done.stderr
    assert shell("events", BLAZAR_HOST="127.0.0.1:9").returncode == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watch_on_a_terminal_which_is_then_as_before(shell, number):
    ask(shell)
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 40, 0, 0))
    watch = subprocess.Popen([*BLAZAR, "watch", "--interval", "0.5"], env=shell.env, stdin=follower, stdout=follower,
                             stderr=follower)
    got = b""

    def shown(mark):
        nonlocal got
        if select.select([leader], [], [], 0)[0]:
            got += os.read(leader, 65536)
        return mark in got
    try:
        until(lambda: shown(b"m:f32"), 60)
        until(lambda: got.count(b"\x1b[H") > 1 or shown(b"never"), 60)
        watch.send_signal(number)
        assert watch.wait(30) == 130
        until(lambda: shown(LEAVE), 10)
    finally:
        watch.kill()
        os.close(follower)
        os.close(leader)
    assert got.startswith(ENTER) and got.endswith(LEAVE) and b"Traceback" not in got
    frames = got.removeprefix(ENTER).removesuffix(LEAVE).split(b"\x1b[H")[1:]
    for frame in frames:
        rows = frame.replace(b"\x1b[K", b"").replace(b"\x1b[J", b"").decode().split("\r\n")
        assert len(rows) <= 12 and max(map(len, rows)) <= 40
