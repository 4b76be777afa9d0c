"""FC-32: the database is locked, read-only, cut short, foreign or missing. Whoever asks a model is served, the rest is
told what is wrong, and no damaged file is written over."""

import contextlib
import json
import os
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from blazar.models.api_usage import ApiUsage
from blazar.models.base import close_database, open_database
from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import Daemon
from tests.support.shell import BLAZAR
from tests.support.waiting import until

MESSAGES = [{"role": "user", "content": "hi"}]
QUESTIONS = [("/v1/chat/completions", {"messages": MESSAGES}), ("/api/chat", {"messages": MESSAGES, "stream": False}),
             ("/v1/messages", {"messages": MESSAGES, "max_tokens": 9}), ("/v1/responses", {"input": "hi"})]
BATCH = {"requests": [{"custom_id": "a", "params": {"model": "m", "max_tokens": 9, "messages": MESSAGES}}]}
CHUNK = 'data: {"choices":[{"index":0,"delta":{"content":"one"},"finish_reason":null}]}\n\n'


def call(daemon, path, body=None, limit=60):
    """Status, headers and text of an answer to the API key."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(daemon.url + path, data, {"x-api-key": "sk-ann"})
    try:
        with urllib.request.urlopen(request, timeout=limit) as response:
            return response.status, response.headers, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def asked(daemon, question, seed=0):
    """The status of a question; with another seed it is another one."""
    path, body = question
    status, _, text = call(daemon, path, {"model": "m", **body, "seed": seed})
    assert "ello" in text, text
    return status


def noted(daemon):
    """Requests and tokens of the API key in the database."""
    open_database(daemon.paths.database)
    try:
        return [(row["requests"], row["prompt_tokens"] + row["completion_tokens"]) for row in ApiUsage.since("")
                if row["model"].startswith("m:")]
    finally:
        close_database()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    """One for all, of which the last test spoils the database."""
    keys = [{"name": "ann", "key": "sk-ann"}]
    with Daemon(tmp_path_factory.mktemp("faults"), launcher=LAUNCHER, keys=keys) as daemon:
        daemon.install("m")
        daemon.install("long", chunks=[CHUNK] * 300, pause=0.02)
        yield daemon.start()


def test_one_that_stays_locked_refuses_what_must_be_written_and_nothing_else(daemon):
    assert asked(daemon, QUESTIONS[0]) == 200
    until(lambda: noted(daemon) == [(1, 8)], 20)
    lock = sqlite3.connect(daemon.paths.database, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    try:
        with ThreadPoolExecutor(9) as callers:
            stream = callers.submit(call, daemon, QUESTIONS[0][0], {"model": "long", "stream": True,
                                                                    "messages": MESSAGES})
            answers = [callers.submit(asked, daemon, question, seed) for seed in (1, 2) for question in QUESTIONS]
            refused = callers.submit(call, daemon, "/v1/messages/batches", BATCH)
            slowest = 0.0
            while not refused.done() or "could not be noted" not in daemon.log():
                began = time.monotonic()
                assert call(daemon, "/v1/models")[0] == 200
                slowest = max(slowest, time.monotonic() - began)
                time.sleep(0.05)
            assert [answer.result() for answer in answers] == [200] * 8
            assert stream.result()[0] == 200 and stream.result()[2].count("one") == 300
        assert slowest < 3, "the event loop is not held up, nor is the supervisor"
        status, headers, text = refused.result()
        assert (status, headers["Retry-After"]) == (503, "5") and "kept it locked" in text, text
    finally:
        lock.close()
    until(lambda: noted(daemon) == [(9, 72)], 20)
    assert call(daemon, "/v1/messages/batches", BATCH)[0] == 200


def test_verbs_work_beside_a_lock(daemon):
    lock = sqlite3.connect(daemon.paths.database, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    try:
        for words in (["list"], ["keys", "usage"], ["engine", "list"], ["config", "list"]):
            done = subprocess.run([*BLAZAR, "--data-dir", str(daemon.paths.data_dir), *words], text=True, timeout=60,
                                  capture_output=True, env={**os.environ, "HOME": str(daemon.paths.data_dir),
                                       "BLAZAR_API_KEY": "sk-ann"})
            assert done.returncode == 0, (words, done.stderr)
    finally:
        lock.close()


def test_one_that_may_not_be_written_is_said_and_models_answer(daemon):
    file = daemon.paths.database
    assert asked(daemon, QUESTIONS[0]) == 200
    if os.geteuid() or subprocess.run(["mount", "--bind", file, file], check=False).returncode:
        pytest.skip("only the superuser can mount a small disk")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", file], check=True)
        assert daemon.stop() == 0
        before = file.read_bytes()
        daemon.start()
        assert [asked(daemon, question) for question in QUESTIONS] == [200] * 4
        status, _, text = call(daemon, "/v1/messages/batches", BATCH)
        assert status == 500 and "may not be written" in text
        until(lambda: "could not be noted" in daemon.log() and "may not be written" in daemon.log(), 20)
        assert file.read_bytes() == before
    finally:
        subprocess.run(["umount", "-l", file], check=True)


def cut(file):
    os.truncate(file, 100)


def foreign(file):
    file.write_bytes(b"somebody else's file\n" * 300)


def newer(file):
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA user_version = 99")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@pytest.mark.parametrize(("spoil", "words"), [(cut, "it is damaged"), (foreign, "not a SQLite file"),
                                              (newer, "has schema 99")])
def test_one_that_cannot_be_used_is_one_clear_error_at_the_start(tmp_path, spoil, words):
    with Daemon(tmp_path) as daemon:
        daemon.install("m")
        spoil(daemon.paths.database)
        before = daemon.paths.database.read_bytes()
        _, error = daemon.launch().communicate(timeout=30)
        assert daemon.process.returncode == 1
        assert error.startswith("blazar: ") and error.count("\n") == 1 and words in error, error
        assert daemon.paths.database.read_bytes() == before


def test_one_that_is_missing_is_made_anew_and_said(tmp_path):
    with Daemon(tmp_path) as daemon:
        daemon.install("m")
        for file in daemon.paths.data_dir.glob("blazar.db*"):
            file.unlink()
        daemon.start()
        assert f"{daemon.paths.database} was missing and is made anew" in daemon.log()


def test_one_that_goes_while_the_daemon_runs_takes_no_answer_with_it(daemon):
    assert asked(daemon, QUESTIONS[0]) == 200
    until(lambda: noted(daemon), 20)
    os.truncate(daemon.paths.database, 100)
    assert [asked(daemon, question) for question in QUESTIONS] == [200] * 4
    until(lambda: "could not be noted" in daemon.log(), 20)
    assert daemon.paths.database.stat().st_size == 100, "nobody writes over it"
    assert call(daemon, "/v1/models")[0] == 200
