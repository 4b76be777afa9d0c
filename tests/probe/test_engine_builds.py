"""Builds under a real daemon: which one serves, what it lacks is left out, and moving the data dir harms none."""

import os

import pytest

from blazar.engines.builds import Builds
from blazar.models.base import close_database
from blazar.models.engine import Engine
from blazar.models.measurement import Measurement
from blazar.paths import Paths
from blazar.store.store import Store
from tests.support.daemon import STUB_ENGINE, Daemon


@pytest.fixture
def daemon(tmp_path):
    with Daemon(tmp_path, engine_path=None) as daemon:
        yield daemon


def install(paths, tag, active=False, lacks=None):
    """A build that is the stub engine, whose help may lack a flag."""
    file = paths.engines / tag / "llama-server"
    file.parent.mkdir(parents=True)
    cut = f'[ "$1" = --help ] && {{ "{STUB_ENGINE}" --help | grep -v -e {lacks}; exit; }}\n' if lacks else ""
    file.write_text(f'#!/bin/sh\n{cut}exec "{STUB_ENGINE}" "$@"\n')
    file.chmod(0o755)
    Builds(paths).every()
    Engine.put(kind="llamacpp", tag=tag, path=f"engines/{tag}/llama-server", flavour="cpu", source="a test",
               installed_at="2026-01-01T00:00:00Z", active=active, turn=int(active))
    close_database()


def command_of(daemon, model):
    """What runs for a loaded model, as the system knows it."""
    pid = daemon.starts(model)[-1][0]
    with open(f"/proc/{pid}/cmdline") as file:
        return file.read().split("\0")


def load(daemon, model):
    status, answer = daemon.get(f"/load/{model}")
    assert status == 200, answer


def test_the_build_in_use_serves_and_a_pin_wins_over_it(daemon):
    one, two = daemon.install("one"), daemon.install("two")
    install(daemon.paths, "b1")
    install(daemon.paths, "b2", active=True, lacks="--alias")
    daemon.settings["model_overrides"] = {"two": {"engine": "b1"}}
    daemon.start()
    load(daemon, one)
    load(daemon, two)
    assert "--alias" not in command_of(daemon, one) and "--alias" in command_of(daemon, two)
    log = daemon.paths.daemon_log.read_text()
    assert f"{one}: the model's name has no effect: the engine b2 has no --alias" in log
    assert len(list(daemon.paths.manifests.iterdir())) == 2


def test_with_a_policy_the_build_that_measured_better_serves(daemon):
    model = daemon.install("one")
    install(daemon.paths, "b1", lacks="--alias")
    install(daemon.paths, "b2", active=True)
    row = {"subject": "bench", "model": model, "digest": Store(daemon.paths).describe(model)["digest"], "tokens": 32,
           "method": "llama-bench", "task": "generate", "deviation": 0.0, "runs": 3, "conditions": "{}",
           "measured_at": "2026-01-01T00:00:00Z"}
    Measurement.add([{**row, "engine": "b1", "rate": 90.0}, {**row, "engine": "b2", "rate": 60.0}])
    close_database()
    daemon.settings["engine_routing"] = {"mode": "auto", "policy": "throughput"}
    daemon.start()
    load(daemon, model)
    assert "--alias" not in command_of(daemon, model)


def test_a_pin_that_names_nothing_and_a_flag_that_must_be_there(daemon):
    one, two = daemon.install("one"), daemon.install("two")
    install(daemon.paths, "b1", active=True, lacks="--api-key-file")
    daemon.settings["model_overrides"] = {"two": {"engine": "b9"}}
    daemon.start()
    status, error = daemon.get(f"/load/{one}")
    assert (status, error["slug"]) == (503, "flag-missing")
    assert f"{one} did not load: child_auth needs another engine, since the engine b1 has no --api-key-file; " \
        in error["message"]
    status, error = daemon.get(f"/load/{two}")
    assert (status, error["slug"]) == (503, "engine-pin-unknown")
    assert f"{two} is pinned to the engine 'b9', and there is none of that name: installed are b1" in error["message"]


def test_a_moved_data_dir_keeps_models_and_engines_working(daemon, tmp_path):
    model = daemon.install("one")
    install(daemon.paths, "b1", active=True)
    daemon.start()
    load(daemon, model)
    assert daemon.stop() == 0
    os.rename(daemon.paths.data_dir, tmp_path / "moved")
    with Daemon(tmp_path, engine_path=None) as moved:
        moved.paths = Paths(tmp_path / "moved")
        moved.start()
        load(moved, model)
        assert list(Store(moved.paths).snapshot_models()) == [model]
        assert len(moved.starts(model)) == 2
        assert str(tmp_path / "moved" / "models") in " ".join(command_of(moved, model))
    close_database()
