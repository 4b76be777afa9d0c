"""Those who wait for a slot while their model makes room, is unloaded, started anew, or dies, and batches beside them;
the real gateway and supervisor."""

import base64
import json
import os
import signal
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import Daemon
from tests.support.scripted_child import delta, event
from tests.support.tiny_mmproj import png
from tests.support.waiting import until

WORDS = ("one ", "two ", "three ")


def answer(*, once=None):
    """A streamed answer, the whole of it at once, or its first word and the rest once that file is there."""
    first, *rest = [event(delta(word)).decode() for word in WORDS]
    held = [] if once is None else [{"until": str(once)}]
    return {"lingers": 1.0, "headers": {"Content-Type": "text/event-stream"},
            "chunks": [first, *held, *rest, event(delta(finish="stop")).decode(), "data: [DONE]\n\n"]}


@pytest.fixture
def go_on(tmp_path):
    """What the answers of a model that is held wait for."""
    return tmp_path / "go-on"


@pytest.fixture
def start(tmp_path, go_on):
    with Daemon(tmp_path, launcher=LAUNCHER, slots=1, max_loaded_models=1, adaptive_slots=False,
                singleflight=False) as daemon, \
            ThreadPoolExecutor(20) as asking:
        def ask(model, text="hi", **more):
            return asking.submit(daemon.post, "/api/chat", {
                "model": model, "messages": [{"role": "user", "content": text, **more}], "stream": False}, 60)

        def started(overrides=None, **held):
            daemon.settings["model_overrides"] = overrides or {}
            names = {name: daemon.install(name, **answer(once=go_on if holds else None))
                     for name, holds in held.items()}
            daemon.start()
            return daemon, ask, names
        yield started
        go_on.touch()


def is_whole(told):
    status, body = told.result()
    return status == 200 and body["message"]["content"] == "".join(WORDS)


def asked(daemon, model):
    return [one for one in daemon.requests(model) if one["method"] == "POST"]


def parked(daemon, count):
    """Until so many wait."""
    def told():
        metrics = daemon.text("/metrics")
        return sum(float(line.split()[-1]) for line in metrics.splitlines()
                   if line.startswith("blazar_requests_parked{")) == count
    until(told, 20, f"{count} parked")


def states(daemon):
    """What becomes of each request that is under way."""
    return sorted(one["state"] for one in daemon.get("/api/requests")[1]["requests"])


def test_a_swap_cuts_nobody_short_and_serves_who_waited_before_it(start, go_on):
    daemon, ask, names = start(one=True, two=False)
    first = [ask("one")]
    until(lambda: asked(daemon, names["one"]), 20)
    first.append(ask("one"))
    parked(daemon, 1)
    other = ask("two")
    until(lambda: daemon.state(names["one"]) == "draining", 20)
    assert daemon.get("/api/requests")[0] == 200  # the supervisor answers it, so the gateway has heard the rest as well
    late = ask("one")
    until(lambda: states(daemon) == ["loading", "loading", "queued", "running"], 20)
    go_on.touch()
    assert all(map(is_whole, [*first, other, late]))
    assert (len(daemon.starts(names["one"])), len(daemon.starts(names["two"]))) == (2, 1)
    assert len(asked(daemon, names["one"])) == 3


def test_models_that_alternate_both_get_on(start):
    daemon, ask, names = start(one=False, two=False)
    answers = [ask("one" if number % 2 else "two") for number in range(16)]
    assert all(map(is_whole, answers))
    assert sum(len(daemon.starts(name)) for name in names.values()) <= 8


def test_an_eviction_waits_for_those_who_wait(start, go_on):
    daemon, ask, names = start(one=True)
    answers = [ask("one")]
    until(lambda: asked(daemon, names["one"]), 20)  # from here on who is parked waits for the slot, not for the load
    answers += [ask("one"), ask("one")]
    parked(daemon, 2)
    control = daemon.control()
    with ThreadPoolExecutor(1) as thread:
        evicting = thread.submit(control.ask, "evict", 60, model=names["one"])
        until(lambda: daemon.state(names["one"]) == "draining", 20)
        assert not evicting.done()
        go_on.touch()
        assert evicting.result()["evicted"]
    control.close()
    assert all(map(is_whole, answers))
    assert len(daemon.starts(names["one"])) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGUSR1], ids=["at once", "slowly"])
def test_a_child_that_is_killed_has_a_successor_for_those_who_wait(start, number):
    """Its connections close before it has ended: whoever asks for it in between is not sent to it again."""
    daemon, ask, names = start(one=True)
    running = ask("one")
    until(lambda: asked(daemon, names["one"]), 20)
    waiting = [ask("one") for _ in range(3)]
    parked(daemon, 3)
    daemon.play(names["one"], **answer())
    os.kill(int(daemon.starts(names["one"])[0][0]), number)
    status, told = running.result()  # its answer has no length that would tell its end
    assert status == 502 and "in the middle of its answer" in told["error"]
    assert all(map(is_whole, waiting))
    assert len(daemon.starts(names["one"])) == 2


@pytest.mark.parametrize("dies", [False, True])
def test_a_model_that_gets_its_projector_serves_all_who_wait(start, go_on, tmp_path, dies):
    """Who was parked before the picture came is served without it, by the old child, or by the new one should the old
    one die meanwhile; who came later by the new one."""
    (tmp_path / "eyes.gguf").write_bytes(bytes(1 << 20))
    daemon, ask, names = start({"one": {"mmproj": str(tmp_path / "eyes.gguf")}}, one=True)
    one = names["one"]
    running = ask("one")
    until(lambda: asked(daemon, one), 20)
    before = [ask("one"), ask("one")]
    parked(daemon, 2)
    shown = ask("one", images=[base64.b64encode(png(255, 0, 0)).decode()])
    until(lambda: daemon.state(one) == "draining", 20)
    assert daemon.get("/api/requests")[0] == 200  # the gateway has heard of it
    after = [ask("one"), ask("one")]
    until(lambda: states(daemon) == ["loading"] * 3 + ["queued"] * 2 + ["running"], 20)
    (first, _), = daemon.starts(one)
    if dies:
        daemon.play(one, **answer())
        os.kill(int(first), signal.SIGKILL)
        assert running.result()[0] == 502, "it has had the beginning"
    else:
        go_on.touch()
        assert is_whole(running)
    assert all(map(is_whole, [*before, shown, *after]))
    by = [one["pid"] == int(first) for one in asked(daemon, one)]
    assert by == ([True] + [False] * 5 if dies else [True] * 3 + [False] * 3)
    started = [line for line in daemon.log().splitlines() if f"{one}#" in line and "started pid" in line]
    assert ["--mmproj" in line for line in started] == [False, True]


def test_a_batch_gives_way_to_whoever_waits(start, go_on):
    daemon, ask, names = start(one=True)
    batch = begin_batch(daemon, "batch 1", "batch 2", "batch 3")
    until(lambda: asked(daemon, names["one"]), 20)
    answers = []
    for text in ("asked 1", "asked 2", "asked 3"):
        answers.append(ask("one", text))
        parked(daemon, len(answers))
    go_on.touch()
    assert all(map(is_whole, answers))
    done = until(lambda: (found := daemon.get(f"/v1/batches/{batch}")[1])["status"] == "completed" and found, 60)
    assert done["request_counts"] == {"total": 3, "completed": 3, "failed": 0}
    texts = [json.loads(bytes.fromhex(one["body"]))["messages"][-1]["content"] for one in asked(daemon, names["one"])]
    assert texts == ["batch 1", "asked 1", "asked 2", "asked 3", "batch 2", "batch 3"]


def begin_batch(daemon, *texts):
    """A batch that asks the model `one` each text; its id."""
    lines = [json.dumps({"custom_id": text, "method": "POST", "url": "/v1/responses",
                         "body": {"model": "one", "input": text, "store": False}}) for text in texts]
    part = "--x\r\nContent-Disposition: form-data; name="
    form = [f'{part}"purpose"\r\n\r\nbatch', f'{part}"file"; filename="f.jsonl"\r\n\r\n' + "\n".join(lines), "--x--"]
    request = urllib.request.Request(f"{daemon.url}/v1/files", "\r\n".join(form).encode(),
                                     {"Content-Type": "multipart/form-data; boundary=x"})
    with urllib.request.urlopen(request, timeout=30) as told:
        file = json.load(told)["id"]
    status, made = daemon.post("/v1/batches", {"input_file_id": file, "endpoint": "/v1/responses",
                                               "completion_window": "24h"})
    assert status == 200, made
    return made["id"]


def test_models_load_in_the_order_in_which_they_were_asked_for(tmp_path, go_on):
    """While another one is busy; and each is loaded once, however many ask."""
    names = ("busy", "third", "first", "second")
    with Daemon(tmp_path, launcher=LAUNCHER, max_loaded_models=1) as daemon, ThreadPoolExecutor(8) as asking:
        models = {name: daemon.install(name, **answer(once=go_on if name == "busy" else None)) for name in names}
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
        go_on.touch()
        assert all(map(is_whole, answers))
        began = {name: min(one["at"] for one in daemon.requests(models[name])) for name in names}
        assert sorted(began, key=began.get) == ["busy", "first", "second", "third"]
        assert [len(daemon.starts(model)) for model in models.values()] == [1] * len(models)
