"""Drill: the disk of the database, of the daemon's log, of the audit log, or of saved conversations is full. Models
answer as ever; what could not be written is told, and is written, or done again, once there is room."""

import json
import os
import signal
import sqlite3
from contextlib import closing, contextmanager

import pytest

from blazar.models.api_usage import ApiUsage
from blazar.models.base import close_database, open_database
from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import Daemon
from tests.support.small_disk import fill, small_disk
from tests.support.waiting import until

MESSAGES = [{"role": "user", "content": "hi"}]
QUESTIONS = [("/v1/chat/completions", {"messages": MESSAGES}), ("/api/chat", {"messages": MESSAGES, "stream": False}),
             ("/v1/messages", {"messages": MESSAGES, "max_tokens": 9}), ("/v1/responses", {"input": "hi"})]
BATCH = {"requests": [{"custom_id": "a", "params": {"model": "m", "max_tokens": 9, "messages": MESSAGES}}]}
MEMORY = "size=2g,nr_inodes=12"
"""Room for banks, as far as a look at it tells, but not for the files of one more model."""


@contextmanager
def disk_at(tmp_path, part, options="size=4m", **settings):
    """A daemon one of whose folders is a small disk; its own data dir for the part "", and then nothing else is."""
    data = tmp_path / "data"
    with small_disk(data / part, options), Daemon(tmp_path, LAUNCHER, **settings) as daemon:
        yield daemon


def asked(daemon, model="m"):
    """A question in each dialect, all of which are answered."""
    answers = [daemon.post(path, {"model": model, **body}) for path, body in QUESTIONS]
    assert [status for status, _ in answers] == [200] * 4, answers
    assert all("Hello there." in json.dumps(answer) for _, answer in answers)
    return answers


def noted(daemon):
    open_database(daemon.paths.database)
    try:
        return sum(row["requests"] for row in ApiUsage.since("") if row["model"].startswith("m:"))
    finally:
        close_database()


def test_of_the_database(tmp_path):
    """Its logs lie elsewhere, so that they can tell, and the models, beside which the stub engine writes."""
    keys = [{"name": "ann", "key": "sk-ann"}]
    with (disk_at(tmp_path, "", keys=keys) as daemon, small_disk(daemon.paths.run), small_disk(daemon.paths.log),
          small_disk(daemon.paths.models)):
        daemon.paths.ensure()
        daemon.key = "sk-ann"
        daemon.install("m")
        daemon.start()
        kept = asked(daemon)[-1][1]
        until(lambda: noted(daemon) == 4, 20)
        filler = fill(daemon.paths.data_dir)
        for _ in range(2):
            unkept = asked(daemon)[-1][1]
            if not unkept["store"]:
                break
            fill(daemon.paths.data_dir)  # the last pages of SQLite's own file
        status, answer = daemon.post("/v1/messages/batches", BATCH)
        assert status == 507 and "the disk is full; free some space" in answer["error"]["message"], answer
        assert unkept["store"] is False, "whoever asked is told that it is not kept"
        until(lambda: "could not be noted, and will be later" in daemon.log(), 20)
        assert daemon.get(f"/v1/responses/{kept['id']}")[0] in (200, 507), "SQLite may want room for reading, too"
        filler.unlink()
        until(lambda: noted(daemon) >= 8, 30, "what was counted meanwhile")
        assert daemon.get(f"/v1/responses/{kept['id']}") == (200, kept), "what was committed is there"
        again = asked(daemon)[-1][1]
        assert daemon.get(f"/v1/responses/{again['id']}") == (200, again)
        assert daemon.post("/v1/messages/batches", BATCH)[0] == 200
        assert daemon.stop() == 0
        with closing(sqlite3.connect(daemon.paths.database)) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert "Traceback" not in daemon.log()


def test_of_the_daemons_log_and_its_small_files(tmp_path):
    with disk_at(tmp_path, "run") as daemon:
        daemon.install("m")
        daemon.install("other")
        daemon.start()
        asked(daemon)
        filler, before = fill(daemon.paths.run), daemon.log()
        asked(daemon)
        status, answer = daemon.post(*("/v1/chat/completions", {"model": "other", "messages": MESSAGES}))
        assert status == 503 and "No space left on device" in answer["error"]["message"], answer
        asked(daemon)
        assert daemon.log().startswith(before)
        filler.unlink()
        asked(daemon, "other")
        os.kill(next(child["pid"] for child in daemon.status()["children"]), signal.SIGKILL)
        until(lambda: "SIGKILL" in daemon.log(), 20, "what happens now to be in the log")
        assert daemon.stop() == 0


def test_of_the_audit_log(tmp_path):
    with disk_at(tmp_path, "log") as daemon:
        daemon.install("m")
        daemon.start()
        asked(daemon)
        filler = fill(daemon.paths.log)
        until(lambda: asked(daemon) and "no audit line can be written" in daemon.gateway_log(), 20)
        for _ in range(5):
            asked(daemon)
        assert daemon.gateway_log().count("no audit line can be written") == 1
        filler.unlink()
        before = daemon.paths.audit_log.read_bytes()
        assert not before.endswith(b"\n"), "a line was cut"
        asked(daemon)
        lines = until(lambda: (all_ := daemon.paths.audit_log.read_bytes().splitlines())[before.count(b"\n") + 4 :]
                      and all_, 20)
        assert {json.loads(line)["status"] for line in lines[-4:]} == {200}, "each is whole, after the one that was cut"


def banks(daemon):
    return sorted(file.name for file in daemon.paths.sessions.rglob("*") if file.is_file())


def unload(daemon, model):
    assert daemon.post("/api/generate", {"model": model, "keep_alive": 0})[0] == 200
    until(lambda: daemon.state(f"{model}:f32") == "absent", 20)


def test_of_saved_conversations(tmp_path):
    """One that fills up while an engine saves; where it is nearly full before, nothing is begun."""
    with disk_at(tmp_path, "sessions", MEMORY) as daemon:
        for model in ("m", "other"):
            daemon.install(model, tokens=9)
        daemon.start()
        asked(daemon)
        unload(daemon, "m")
        whole = banks(daemon)
        assert whole == ["_auto-4096.0.kv", "_auto-4096.json"]
        asked(daemon, "other")
        fillers = []
        with pytest.raises(OSError, match="No space"):
            for number in range(20):
                fillers.append(daemon.paths.sessions / f"filler{number}")
                fillers[-1].touch()
        unload(daemon, "other")
        assert "other:f32: its conversations are not saved" in daemon.log()
        asked(daemon)
        assert "m:f32: has 9 tokens of its conversations again" in daemon.log()
        for filler in fillers[:-1]:
            filler.unlink()
        assert banks(daemon) == whole, "nothing is left by half"
        asked(daemon, "other")
        unload(daemon, "other")
        assert banks(daemon) == sorted(whole * 2)
        assert daemon.stop() == 0
