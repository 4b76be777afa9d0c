"""Loads by bytes on recorded machines: real children that do nothing, sizes that their files and settings tell."""

import json
import os
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import DAEMONS, STUB_GATEWAY
from tests.support.gateway_under_test import ASK
from tests.support.shell import BLAZAR
from tests.support.stub_model import HEAVY
from tests.support.transports import BY_END
from tests.support.waiting import until

CENSUS = Path(__file__).parent.parent / "data" / "census"
GIB = 1 << 30


class Machine:
    """A daemon on a recorded machine, with models given by the GiB that they want."""

    def __init__(self, folder, recorded, models, kind="tcp", launcher=STUB_GATEWAY, **overrides):
        self.file = folder / "census.json"
        self.census = json.loads((CENSUS / f"{recorded}.json").read_text())
        self.write()
        each = {name: {"ctx": size * 1024, "slots": 1, "cache_type": "f16", **overrides.get(name, {})}
                for name, size in models.items()}
        self.daemon = DAEMONS[kind](folder, launcher=launcher, census=str(self.file), model_overrides=each)
        for name in models:
            self.daemon.install(name, shape=HEAVY)

    def __enter__(self):
        self.daemon.start()
        return self

    def __exit__(self, *_):
        self.daemon.__exit__()

    def write(self):
        """What the daemon sees at its next look."""
        whole = self.file.with_suffix(".new")
        whole.write_text(json.dumps(self.census))
        whole.replace(self.file)

    def load(self, *names):
        for name in names:
            status, answer = self.daemon.get(f"/load/{name}:f32")
            assert status == 200, answer

    def children(self, *states):
        return {child["model"].partition(":")[0]: child for child in self.daemon.status()["children"]
                if child["state"] in states}

    @property
    def loaded(self):
        return set(self.children("ready"))

    def cards(self, name):
        """The cards that a child may see; None for all."""
        variables = Path(f"/proc/{self.children('ready')[name]['pid']}/environ").read_bytes().split(b"\0")
        told = (one.decode().partition("=") for one in variables)
        return {key: value for key, _, value in told}.get("CUDA_VISIBLE_DEVICES")


def test_each_card_is_used_and_only_who_is_in_the_way_goes(tmp_path):
    with Machine(tmp_path, "pair-12-8", {"one": 9, "two": 6, "three": 8, "small": 1}, launcher=LAUNCHER) as machine:
        ask = {"messages": [{"role": "user", "content": "hi"}], "stream": False}
        for name in ("one", "two", "small"):
            assert machine.daemon.post("/api/chat", {"model": name, **ask})[0] == 200
        assert [machine.cards(name) for name in ("one", "two", "small")] == ["0", "1", "0"]
        rows = {row["name"]: row for row in machine.daemon.get("/api/ps")[1]["models"]}
        assert 9 * GIB < rows["one:f32"]["size_vram"] <= rows["one:f32"]["size"] < 9.1 * GIB
        told = machine.daemon.post("/api/explain", {"model": "three"})[1]
        assert (told["loaded"], told["goes"], told["plan"]["fits"]) == (False, ["one:f32"], True)
        fitted = subprocess.run([*BLAZAR, "--data-dir", str(machine.daemon.paths.data_dir), "fit", "three", "--ctx",
                                 "8192", "--json"], capture_output=True, env={**os.environ, "PYTHONPATH": os.getcwd()})
        assert json.loads(fitted.stdout)["goes"] == ["one:f32"], fitted
        assert machine.loaded == {"one", "two", "small"}, "asking changes nothing"
        assert machine.daemon.post("/api/chat", {"model": "three", **ask})[0] == 200
        assert machine.loaded == {"two", "small", "three"} and machine.cards("three") == "0"


def test_refusals_groups_exclusive_models_and_costs(tmp_path):
    models = {"pin": 2, "a": 1, "b": 1, "large": 3, "alone": 1, "dear": 1}
    with Machine(tmp_path, "container-4gib", models, pin={"pin": True}, a={"group": "chat"}, b={"group": "chat"},
                 alone={"exclusive": True}, dear={"evict_cost": 9}) as machine:
        machine.load("a", "b")
        assert machine.loaded == {"b"}
        machine.load("pin")
        status, error = machine.daemon.get("/load/large:f32", 5)
        assert (status, error["slug"]) == (507, "fit-refused") and error["message"].startswith(
            "large:f32 does not fit: it needs 3.0 GiB, and what is free of this machine's memory is 1.6 GiB; take "
            "`pin` from pin:f32; ")
        status, error = machine.daemon.get("/load/alone:f32", 5)
        assert status == 503 and "pin:f32 is pinned, and alone:f32 is exclusive" in error["message"]
        assert machine.loaded == {"b", "pin"}, "nobody goes in vain"
        machine.daemon.get("/evict/pin:f32")
        machine.load("dear", "a", "large")
        assert machine.loaded == {"large"}
        machine.load("alone")
        assert machine.loaded == {"alone"}


def test_what_can_never_fit_is_refused_at_once_with_the_numbers_beside_a_busy_model(tmp_path):
    with Machine(tmp_path, "container-4gib", {"busy": 1, "huge": 9}, launcher=LAUNCHER) as machine:
        daemon = machine.daemon
        daemon.play("busy:f32", silent=30)
        with ThreadPoolExecutor(2) as asking:
            ask = {"model": "busy", "messages": [{"role": "user", "content": "hi"}], "stream": False}
            waiting = [asking.submit(daemon.post, "/api/chat", {**ask, "options": {"seed": n}}, 90) for n in (1, 2)]
            until(lambda: [one for one in daemon.requests("busy:f32") if one["method"] == "POST"], 20)
            for dialect, (path, body) in ASK.items():
                began = time.monotonic()
                status, told = daemon.post(path, {**body, "model": "huge", "stream": dialect == "ollama"})
                assert status == 507 and time.monotonic() - began < 10, told
                message = told["error"] if dialect == "ollama" else told["error"]["message"]
                assert message.startswith("huge:f32 does not fit: it needs 9.0 GiB, and 90% of this machine's "
                                          "memory is 3.6 GiB; "), message
                assert "a smaller ctx: 3584 would fit" in message and "blazar fit huge:f32" in message
            assert machine.loaded == {"busy"} and not [one for one in waiting if one.done()]
            assert (len(daemon.starts("busy:f32")), daemon.starts("huge:f32")) == (1, [])
            daemon.kill()


@pytest.mark.parametrize("kind", BY_END)
def test_memory_that_comes_back_late_is_waited_for(tmp_path, kind):
    with Machine(tmp_path, "laptop-8gb", {"one": 6, "two": 6}, kind) as machine:
        [card] = [gpu for gpu in machine.census["gpus"] if gpu["vendor"] == "nvidia"]
        machine.load("one")
        free, card["free"] = card["free"], card["free"] - 6 * GIB
        machine.write()
        asking = threading.Thread(target=machine.load, args=["two"])
        asking.start()
        until(lambda: machine.daemon.state("one:f32") == "absent", what="the end of the first")
        time.sleep(0.7)
        assert not machine.daemon.starts("two:f32") and asking.is_alive()
        card["free"] = free
        machine.write()
        asking.join(20)
        assert machine.loaded == {"two"}
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(machine.load, name) for name in ("one", "two")]
            while not all(one.done() for one in both):
                assert len(machine.children("starting", "ready", "draining", "stopping")) < 2
        assert [one.result() for one in both] == [None, None]
