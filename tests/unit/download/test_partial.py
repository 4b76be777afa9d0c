import json
import os

import pytest

from blazar.download.partial import State, part_of, state_of, try_claim
from blazar.download.spans import Spans
from tests.support.downloads import leave_partial, names


@pytest.fixture
def target(tmp_path):
    return tmp_path / "m"


def test_a_state_survives(target):
    partial = try_claim(target)
    partial.state = State("http://h/m", "ab", 100, '"v1"', Spans())
    partial.write(0, b"abc")
    partial.write(50, b"xyz")
    partial.save()
    partial.close()
    again = try_claim(target)
    assert again.state == State("http://h/m", "ab", 100, '"v1"', again.state.done)
    assert list(again.state.done) == [(0, 3), (50, 53)]
    assert again.kept == 6
    again.close()


@pytest.mark.parametrize("change", [
    {"done": [[0, 200]], "size": 100}, {"done": None}, {"done": [[5, 1]]}, {"size": "100"}, {"size": -1},
    {"size": True}, {"version": 2}, {"version": None}, {"url": 5}, {"validator": {}}, {"sha256": []}])
def test_a_state_that_makes_no_sense_counts_for_nothing(target, change):
    leave_partial(target, b"x" * 150, "http://h/m", None, 100, [(0, 10)])
    raw = {**json.loads(state_of(target).read_text()), **change}
    state_of(target).write_text(json.dumps(raw))
    state = State.read(state_of(target), 150)
    assert (state.url, state.sha256, state.size, state.validator, list(state.done)) == ("", None, None, None, [])


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, "{}" + " " * 2_000_000, "\xff"])
def test_a_state_that_is_no_json_counts_for_nothing(target, text):
    state_of(target).write_bytes(text.encode("latin-1"))
    assert State.read(state_of(target), 10).done.total == 0


def test_a_state_says_no_more_than_the_partial_has(target):
    leave_partial(target, b"x" * 70, "http://h/m", None, 100, [(0, 50), (60, 100)])
    assert list(State.read(state_of(target), 70).done) == [(0, 50), (60, 70)]


def test_one_holds_it_at_a_time(target):
    first = try_claim(target)
    assert try_claim(target) is None
    first.close()
    second = try_claim(target)
    assert second is not None
    second.close()


def test_a_partial_that_was_placed_meanwhile_is_not_claimed(target):
    """What was locked is the finished file by then; whoever comes gets a new partial."""
    first = try_claim(target)
    first.write(0, b"abc")
    first.state.size = 3
    first.place()
    second = try_claim(target)
    assert not os.path.samefile(part_of(target), target)
    first.close()
    second.close()
    assert target.read_bytes() == b"abc"


def test_placing_cuts_what_is_beyond_the_size_and_leaves_nothing_else(target):
    leave_partial(target, b"abcdef", "u", None, 3, [(0, 3)])
    partial = try_claim(target)
    partial.place()
    partial.close()
    assert (names(target.parent), target.read_bytes()) == (["m"], b"abc")


def test_a_late_lane_writes_nothing(target):
    partial = try_claim(target)
    partial.close()
    partial.write(0, b"late")
    partial.save()
    assert part_of(target).read_bytes() == b""
    assert not state_of(target).exists()


def test_a_link_in_its_place_is_not_followed(target, tmp_path):
    (tmp_path / "victim").write_text("mine")
    part_of(target).symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        try_claim(target)
    assert (tmp_path / "victim").read_text() == "mine"
