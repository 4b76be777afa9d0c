"""Which program serves a model: pins, BLAZAR_ENGINE_PATH, builds, PATH and the embedded engine."""

import importlib.util
from pathlib import Path

import pytest

from blazar.engines.builds import Build
from blazar.engines.routing import EMBEDDED, Rates, Routing, find_program, others, rates_of
from blazar.errors import EngineGone, EngineMissing, EnginePinUnknown
from tests.support.programs import program

HAS_EMBEDDED = importlib.util.find_spec("xllamacpp") is not None


@pytest.fixture
def engine(tmp_path):
    file = tmp_path / "engines" / "llama-server"
    file.parent.mkdir()
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def build(folder: Path, tag, active=False, installed="2026-01-01", there=True):
    path = folder / "engines" / tag / "llama-server"
    if there:
        program(path)
    return Build("llamacpp", tag, path, "cpu", "a release", None, installed, active, False, 0)


@pytest.fixture
def builds(tmp_path):
    """b2 is in use; b3 is newer."""
    return [build(tmp_path, "b1"), build(tmp_path, "b2", active=True, installed="2026-02-01"),
            build(tmp_path, "b3", installed="2026-03-01")]


def chosen(builds, engine_path=None, path="/nowhere", **routing):
    return find_program("solo:q4_0", engine_path and str(engine_path), {"PATH": str(path)}, builds,
                        Routing(**routing)).tag


# -- without builds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["file", "folder"])
def test_named_engine_wins(engine, named):
    path = engine if named == "file" else engine.parent
    program = find_program("m", str(path), {"PATH": str(engine.parent)})
    assert (program.argv, program.source, program.tag) == ((str(engine),), "BLAZAR_ENGINE_PATH", "local")
    assert program.picks_port


@pytest.mark.parametrize("spoil, reason", [
    (lambda file: file.unlink(), "is not a file"),
    (lambda file: file.chmod(0o644), "is not executable"),
])
def test_wrong_path_is_never_passed_over(engine, builds, spoil, reason):
    spoil(engine)
    for path in (engine, engine.parent):
        with pytest.raises(EngineMissing, match=reason) as caught:
            find_program("m", str(path), {"PATH": "/usr/bin"}, builds)
        assert str(engine) in caught.value.message


def test_path_comes_next(engine):
    program = find_program("m", None, {"PATH": str(engine.parent)})
    assert (program.argv, program.source, program.tag) == ((str(engine),), "PATH", "path")


def test_then_the_embedded_one_or_none(tmp_path):
    if HAS_EMBEDDED:
        program = find_program("m", "", {"PATH": str(tmp_path)})
        assert (program.argv, program.source, program.tag) == (EMBEDDED, "embedded", "embedded")
    else:
        with pytest.raises(EngineMissing, match="no build is installed, there is no llama-server on PATH"):
            find_program("m", "", {"PATH": str(tmp_path)})


# -- builds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "manual"])
def test_the_build_in_use_serves_before_path_and_the_embedded_one(engine, builds, mode):
    program = find_program("m", None, {"PATH": str(engine.parent)}, builds, Routing(mode=mode))
    assert (program.argv, program.source, program.tag) == ((str(builds[1].path),), "b2", "b2")


@pytest.mark.parametrize("mode", ["auto", "manual"])
def test_the_local_lane_comes_before_any_build(engine, builds, mode):
    assert chosen(builds, engine, mode=mode) == "local"


@pytest.mark.parametrize("mode", ["auto", "manual"])
def test_a_build_in_use_whose_program_is_gone_is_not_passed_over(tmp_path, engine, mode):
    gone = build(tmp_path, "b2", active=True, there=False)
    with pytest.raises(EngineGone) as caught:
        find_program("solo:q4_0", None, {"PATH": str(engine.parent)}, [gone], Routing(mode=mode))
    assert caught.value.message == (
        f"the engine build b2 cannot serve solo:q4_0: {gone.path} is not a file; choose another with "
        "`blazar engine use TAG` or install it again with `blazar engine update`")


def test_without_one_in_use_auto_takes_the_newest_and_manual_none(tmp_path, engine):
    idle = [build(tmp_path, "b1"), build(tmp_path, "b3", installed="2026-03-01"),
            build(tmp_path, "b4", installed="2026-04-01", there=False)]
    assert chosen(idle, path=engine.parent, mode="auto") == "b3"
    assert chosen(idle, path=engine.parent, mode="manual") == "path"


RATES = {"b1": Rates(prompt=900, decode=50), "b2": Rates(prompt=500, decode=60), "b3": Rates(prompt=100, decode=90)}


@pytest.mark.parametrize(("mode", "policy", "rates", "expected"), [
    ("auto", None, RATES, "b2"),
    ("auto", "quality", RATES, "b2"),
    ("auto", "latency", RATES, "b1"),
    ("auto", "throughput", RATES, "b3"),
    ("auto", "throughput", {}, "b2"),
    ("auto", "throughput", {"b3": Rates(decode=10)}, "b2"),
    ("auto", "throughput", {"b2": Rates(decode=9), "b3": Rates(decode=10)}, "b3"),
    ("auto", "latency", {"b1": Rates(decode=9)}, "b2"),
    ("auto", "throughput", {"b9": Rates(decode=99)}, "b2"),
    ("auto", "throughput", {"b2": Rates(decode=9), "b3": Rates(decode=9)}, "b2"),
    ("manual", "latency", RATES, "b2"),
    ("manual", "throughput", RATES, "b2"),
])
def test_what_was_measured_decides_in_auto(builds, mode, policy, rates, expected):
    assert chosen(builds, mode=mode, policy=policy, rates=rates) == expected


def test_of_each_build_the_last_figures_count():
    rows = [{"engine": "b2", "task": "generate", "rate": 9.0}, {"engine": "b1", "task": "prompt", "rate": 5.0},
            {"engine": "b2", "task": "generate", "rate": 99.0}, {"engine": "b2", "task": "prompt", "rate": 7.0}]
    assert rates_of(rows) == {"b2": Rates(7.0, 9.0), "b1": Rates(5.0, 0.0)}
    assert rates_of([]) == {}


def test_a_build_that_is_gone_does_not_win_by_its_rates(tmp_path, builds):
    builds[2].path.unlink()
    assert chosen(builds, policy="throughput", rates=RATES) == "b2"


def test_an_embedded_build_runs_its_own_python(tmp_path):
    python = program(tmp_path / "engines" / "embedded-1" / "bin" / "python")
    one = Build("llamacpp", "embedded-1", python, "embedded", "pip", None, "2026-01-01", True, False, 1)
    found = find_program("m", None, {}, [one])
    assert (found.argv, found.source, found.tag) == ((str(python), *EMBEDDED[1:]), "embedded", "embedded-1")


# -- pins -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", "manual"])
def test_a_pin_wins_over_both_modes_and_the_local_lane(engine, builds, mode):
    assert chosen(builds, engine, pin="b1", mode=mode, policy="throughput", rates=RATES) == "b1"
    assert chosen(builds, engine, pin="local", mode=mode) == "local"
    assert chosen(builds, path=engine.parent, pin="path", mode=mode) == "path"


def test_a_fork_serves_only_who_is_pinned_to_it(tmp_path, engine, builds):
    path = program(tmp_path / "engines" / "fork-x" / "llama-server")
    fork = Build("llamacpp-fork", "fork-x", path, "cpu", "a lane", None, "2026-09-09", False, False, 0)
    assert chosen([*builds, fork], engine, pin="fork-x") == chosen([*builds, fork], pin="fork-x") == "fork-x"
    assert chosen([*builds, fork], policy="throughput", rates={"b2": Rates(1, 1), "fork-x": Rates(9, 9)}) == "b2"
    assert chosen([builds[0], fork]) == "b1" and chosen([fork], path=engine.parent) == "path"


def test_a_pin_to_a_kind_leaves_the_choice_of_the_build(engine, builds):
    assert chosen(builds, pin="llamacpp") == "b2"
    assert chosen(builds, engine, pin="llamacpp") == "local"


def test_a_pin_that_names_nothing_says_what_is_here(builds):
    with pytest.raises(EnginePinUnknown) as caught:
        chosen(builds, pin="b7")
    here = "b1, b2, b3" + (", embedded" if HAS_EMBEDDED else "")
    assert caught.value.message == (
        f"solo:q4_0 is pinned to the engine 'b7', and there is none of that name: installed are {here}; "
        "mend `engine` in its [model_overrides], or install that build")


def test_a_pin_to_a_build_that_is_gone(builds):
    builds[0].path.chmod(0o644)
    with pytest.raises(EngineGone, match=r"b1 cannot serve solo:q4_0: .* is not executable"):
        chosen(builds, pin="b1")


def test_what_is_here_beside_the_builds(engine):
    tags = [program.tag for program in others(str(engine), {"PATH": str(engine.parent)})]
    assert tags == ["local", "path", *(["embedded"] if HAS_EMBEDDED else [])]
