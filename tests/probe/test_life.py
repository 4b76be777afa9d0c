"""What children keep between two lives, and what is loaded before anybody asks; with the stub engine."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from blazar.supervisor.gateway import LAUNCHER
from blazar.supervisor.sessions import SAVE_LIMIT
from tests.support.daemon import DAEMONS, Daemon
from tests.support.transports import BY_END
from tests.support.waiting import until


@pytest.fixture(params=BY_END)
def daemon(request, tmp_path):
    with DAEMONS[request.param](tmp_path) as daemon:
        yield daemon


def load(daemon, model):
    status, endpoint = daemon.get(f"/load/{model}")
    assert status == 200, endpoint
    return endpoint


def unload(daemon, model):
    """Seconds it took."""
    began = time.monotonic()
    link = daemon.control()
    try:
        assert link.ask("evict", 30, model=model)["evicted"]
    finally:
        link.close()
    return time.monotonic() - began


def banks(daemon):
    return sorted(file.name for file in daemon.paths.sessions.rglob("*") if file.is_file())


def slot_calls(daemon, model):
    return [request["path"] for request in daemon.requests(model) if "/slots/" in request["path"]]


BANK = ["_auto-4096.0.kv", "_auto-4096.json"]


def test_slots_are_saved_and_given_back(daemon):
    model = daemon.install("solo", tokens=9)
    daemon.start()
    load(daemon, model)
    unload(daemon, model)
    assert banks(daemon) == BANK
    folder = next(daemon.paths.sessions.iterdir())
    assert folder.stat().st_mode & 0o777 == 0o700 and (folder / BANK[0]).stat().st_mode & 0o777 == 0o600
    load(daemon, model)
    assert slot_calls(daemon, model) == ["/slots/0?action=save", "/slots/0?action=restore"]
    assert "solo:f32: has 9 tokens of its conversations again" in daemon.log()
    before = (folder / BANK[1]).read_text()
    assert daemon.stop() == 0
    assert (folder / BANK[1]).read_text() != before, "the end of the daemon saves too"


def test_an_engine_that_dies_of_its_slots_serves_without_them(daemon):
    model = daemon.install("solo", tokens=9)
    daemon.start()
    load(daemon, model)
    unload(daemon, model)
    daemon.play(model, tokens=9, die_restoring=3)
    assert load(daemon, model)["pid"]
    assert len(daemon.starts(model)) == 3, "once before, once with them, once without"
    assert banks(daemon) == []
    assert "the engine ended when it was given its saved conversations" in daemon.log()


@pytest.mark.parametrize("daemon", ["tcp"], indirect=True)
def test_saving_has_an_end(daemon):
    """An engine that hangs while it saves, or altogether, goes as any other, and leaves no half bank."""
    slow, frozen = daemon.install("slow", tokens=9, save_delay=60), daemon.install("frozen", tokens=9)
    daemon.start()
    load(daemon, slow)
    os.kill(load(daemon, frozen)["pid"], signal.SIGSTOP)
    with ThreadPoolExecutor() as pool:
        took = pool.submit(unload, daemon, slow)
        assert unload(daemon, frozen) < 12
        assert SAVE_LIMIT <= took.result() < SAVE_LIMIT + 4
    until(lambda: not banks(daemon), what="no trace of either")
    load(daemon, slow)
    began = time.monotonic()
    assert daemon.stop() == 0
    assert time.monotonic() - began < 8, "bounded by shutdown_grace_secs, 2 s"


@pytest.mark.parametrize("daemon", ["tcp"], indirect=True)
@pytest.mark.parametrize("settings", [{"session_bank": False}, {"sessions": False}])
def test_no_banks_when_they_are_off(daemon, settings):
    model = daemon.install("solo", tokens=9)
    daemon.start()
    load(daemon, model)
    assert daemon.stop() == 0 and banks(daemon) == BANK
    daemon.settings.update(settings)
    daemon.start()
    until(lambda: not banks(daemon), what="those of before to go")
    load(daemon, model)
    unload(daemon, model)
    assert banks(daemon) == []


@pytest.mark.parametrize("daemon", ["tcp"], indirect=True)
def test_a_bank_goes_with_its_model(daemon):
    model = daemon.install("solo", tokens=9)
    daemon.start()
    load(daemon, model)
    link = daemon.control()
    try:
        link.ask("remove", 30, model=model)
    finally:
        link.close()
    until(lambda: not banks(daemon), what="the bank to go")


def test_preload_one_after_the_other_and_warn(tmp_path):
    with Daemon(tmp_path, max_loaded_models=2, preload=["one", "missing", "two", "three", "one"]) as daemon:
        names = [daemon.install(name) for name in ("one", "two", "three")]
        daemon.start()
        until(lambda: "three is not loaded" in daemon.log(), 20)
        assert [daemon.state(name) for name in names] == ["ready", "ready", "absent"]
        log = daemon.log()
        assert "preload: missing is not loaded: " in log and "no room for it now" in log
        assert log.index("one:f32#1: ready") < log.index("two:f32#1: started")
        until(lambda: [request["path"] for request in daemon.requests(names[0]) if request["method"] == "POST"],
              what="the first request of our own")
        load(daemon, names[2])
        assert [request for request in daemon.requests(names[2]) if request["method"] == "POST"] == [], "it was awaited"


def test_what_usually_follows_is_loaded_ahead(tmp_path):
    with Daemon(tmp_path, launcher=LAUNCHER, max_loaded_models=2, predictive_preload=True) as daemon:
        one, two = daemon.install("one"), daemon.install("two")
        daemon.start()

        def chat(model, **more):
            body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": False, **more}
            assert daemon.post("/api/chat", body)[0] == 200

        def is_expected():
            """What was used is looked at once a second, so a turn may go unseen."""
            chat(one)
            chat(two, keep_alive=0)
            until(lambda: daemon.state(two) == "absent")
            chat(one)
            deadline = time.monotonic() + 3
            while time.monotonic() < deadline and not (found := "two:f32 usually follows" in daemon.log()):
                time.sleep(0.1)
            return found

        until(is_expected, 60)
        until(lambda: daemon.state(two) == "ready")
