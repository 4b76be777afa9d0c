"""Those who wait for a slot while their model makes room, is unloaded, or dies; the real gateway and supervisor."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import Daemon
from tests.support.scripted_child import delta, event
from tests.support.waiting import until

PIECES = 6


def slow(pause):
    """An answer of `PIECES` pieces with pauses between them."""
    pieces = [event(delta(f"{number} ")) for number in range(PIECES)]
    chunks = [piece.decode() for piece in (*pieces, event(delta(finish="stop")), b"data: [DONE]\n\n")]
    return {"headers": {"Content-Type": "text/event-stream"}, "chunks": chunks, "pause": pause}


@pytest.fixture
def start(tmp_path):
    with Daemon(tmp_path, launcher=LAUNCHER, slots=1, max_loaded_models=1, adaptive_slots=False,
                singleflight=False) as daemon, \
            ThreadPoolExecutor(16) as asking:
        def ask(model):
            return asking.submit(daemon.post, "/api/chat", {
                "model": model, "messages": [{"role": "user", "content": "hi"}], "stream": False}, 60)

        def started(**pauses):
            names = {name: daemon.install(name, **slow(pause)) for name, pause in pauses.items()}
            daemon.start()
            return daemon, ask, names
        yield started


def is_whole(answer):
    status, body = answer.result()
    return status == 200 and body["message"]["content"] == "".join(f"{number} " for number in range(PIECES))


def asked(daemon, model):
    return [one for one in daemon.requests(model) if one["method"] == "POST"]


def parked(daemon, count):
    """Until so many wait."""
    def told():
        metrics = daemon.text("/metrics")
        return sum(float(line.split()[-1]) for line in metrics.splitlines()
                   if line.startswith("blazar_requests_parked{")) == count
    until(told, 20, f"{count} parked")


def test_a_swap_cuts_nobody_short_and_serves_who_waited_before_it(start):
    daemon, ask, names = start(one=0.2, two=0.01)
    first = [ask("one")]
    until(lambda: asked(daemon, names["one"]), 20)
    first.append(ask("one"))
    parked(daemon, 1)
    other = ask("two")
    until(lambda: daemon.state(names["one"]) == "draining", 20)
    late = ask("one")
    assert all(map(is_whole, [*first, other, late]))
    assert (len(daemon.starts(names["one"])), len(daemon.starts(names["two"]))) == (2, 1)
    assert len(asked(daemon, names["one"])) == 3


def test_models_that_alternate_both_get_on(start):
    daemon, ask, names = start(one=0.01, two=0.01)
    answers = [ask("one" if number % 2 else "two") for number in range(16)]
    assert all(map(is_whole, answers))
    assert sum(len(daemon.starts(name)) for name in names.values()) <= 8


def test_an_eviction_waits_for_those_who_wait(start):
    daemon, ask, names = start(one=0.05)
    answers = [ask("one") for _ in range(3)]
    parked(daemon, 2)
    control = daemon.control()
    assert control.ask("evict", 60, model=names["one"])["evicted"]
    control.close()
    assert all(answer.done() for answer in answers) and all(map(is_whole, answers))
    assert len(daemon.starts(names["one"])) == 1


def test_a_child_that_is_killed_has_a_successor_for_those_who_wait(start):
    daemon, ask, names = start(one=3.0)
    running = ask("one")
    until(lambda: asked(daemon, names["one"]), 20)
    waiting = [ask("one") for _ in range(3)]
    parked(daemon, 3)
    daemon.play(names["one"], **slow(0.01))
    os.kill(int(daemon.starts(names["one"])[0][0]), signal.SIGKILL)
    status, told = running.result()  # its answer has no length that would tell its end
    assert status == 502 and "in the middle of its answer" in told["error"]
    assert all(map(is_whole, waiting))
    assert len(daemon.starts(names["one"])) == 2


def test_models_load_in_the_order_in_which_they_were_asked_for(tmp_path):
    """While another one is busy; and each is loaded once, however many ask."""
    names = ("busy", "third", "first", "second")
    with Daemon(tmp_path, launcher=LAUNCHER, max_loaded_models=1) as daemon, ThreadPoolExecutor(8) as asking:
        models = {name: daemon.install(name, **slow(0.4 if name == "busy" else 0.01)) for name in names}
        daemon.start()

        def ask(name):
            return asking.submit(daemon.post, "/api/chat", {
                "model": name, "messages": [{"role": "user", "content": "hi"}], "stream": False}, 60)
        answers = [ask("busy")]
        until(lambda: asked(daemon, models["busy"]), 20)
        for name in ("first", "second", "third"):
            answers += [ask(name), ask(name)]
            until(lambda name=name: daemon.state(models[name]) == "queued", 20)
        refused = daemon.post("/api/chat", {"model": "nobody"})
        assert refused[0] == 404, "what cannot be waits for nobody"
        assert all(map(is_whole, answers))
        began = {name: min(one["at"] for one in daemon.requests(models[name])) for name in names}
        assert sorted(began, key=began.get) == ["busy", "first", "second", "third"]
        assert [len(daemon.starts(model)) for model in models.values()] == [1] * len(models)
