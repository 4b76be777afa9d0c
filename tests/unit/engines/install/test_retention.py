"""What is kept: a pure decision over the builds."""

from pathlib import Path

from blazar.engines.builds import Build
from blazar.engines.install.retention import superfluous


def build(tag: str, day: int, kind: str = "llamacpp", active: bool = False, pinned: bool = False,
          turn: int = 0) -> Build:
    return Build(kind, tag, Path("/x"), "cpu", "s", None, f"2026-01-{day:02}T00:00:00Z", active, pinned, turn)


def tags(builds, keep, needed=()):
    return [one.tag for one in superfluous(builds, keep, needed)]


def test_the_newest_stay():
    builds = [build("b1", 1), build("b3", 3, active=True), build("b2", 2)]
    assert tags(builds, 3) == [] and tags(builds, 2) == ["b1"] and tags(builds, 1) == ["b2", "b1"]


def test_the_one_in_use_stays_on_top_of_the_newest():
    builds = [build("b1", 1, active=True), build("b2", 2), build("b3", 3), build("b4", 4)]
    assert tags(builds, 2) == ["b2"] and tags(builds, 1) == ["b3", "b2"]


def test_pinned_and_local_ones_stay():
    builds = [build("b1", 1, pinned=True), build("local", 1), build("b2", 2), build("b3", 3, active=True)]
    assert tags(builds, 1) == ["b2"]


def test_each_kind_for_itself():
    builds = [build("b1", 1), build("b2", 2), build("w1", 1, kind="whisper"), build("w2", 2, kind="whisper")]
    assert tags(builds, 1) == ["b1", "w1"]


def test_what_a_rollback_goes_back_to_stays_unless_only_one_shall():
    """b2 did not pass the gate: it is newer than b1 and was never in use."""
    builds = [build("b0", 1, turn=1), build("b1", 2, turn=2), build("b2", 3), build("b3", 4, active=True, turn=3)]
    assert tags(builds, 2) == ["b0"] and tags(builds, 1) == ["b2", "b1", "b0"]


def test_what_models_are_pinned_to_stays():
    builds = [build("b1", 1), build("b2", 2), build("b3", 3, active=True)]
    assert tags(builds, 1, {"b1", "b9"}) == ["b2"]
