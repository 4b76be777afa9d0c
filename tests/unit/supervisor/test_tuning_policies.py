"""Adaptive slots and the two governors, second by second and window by window."""

import pytest

from blazar.supervisor.drafts import counts
from blazar.supervisor.policies import adaptive_slots, spec_governor, ubatch_governor
from blazar.supervisor.policies.spec_governor import Governed, acceptance
from blazar.supervisor.policies.ubatch_governor import Tier
from blazar.supervisor.policies.window import Window


def window(share):
    return Window(0.0, 100, int(100 * share))


@pytest.mark.parametrize(("share", "saturated", "quiet"), [
    (1.0, True, False), (0.9, True, False), (0.89, False, False), (0.5, False, False), (0.11, False, False),
    (0.1, False, True), (0.0, False, True)])
def test_windows(share, saturated, quiet):
    assert (window(share).saturated, window(share).quiet) == (saturated, quiet)


def test_a_window_without_looks_is_quiet_and_ends_after_a_minute():
    empty = Window(10.0)
    assert empty.quiet and not empty.saturated
    assert [empty.is_over(at) for at in (10.0, 69.9, 70.0)] == [False, False, True]


def added_at(slots, in_flight, seconds=200):
    """The seconds at which a slot is added, when `in_flight` gives the requests by second."""
    state, found = None, []
    for second in range(seconds):
        state, more = adaptive_slots.look(float(second), state, slots, in_flight(second))
        if more:
            found.append(second)
            slots += 1
    return found


@pytest.mark.parametrize(("slots", "in_flight", "expected"), [
    (1, lambda second: 2, [60]),                               # at two slots nobody waits any more
    (1, lambda second: 9, [60, 121, 182]),                     # up to four
    (3, lambda second: 9, [60]), (4, lambda second: 9, []), (8, lambda second: 99, []),
    (1, lambda second: 1, []), (1, lambda second: 0, []),
    (1, lambda second: 2 if second % 20 else 0, [61]),         # a gap between two requests of the same clients
    (1, lambda second: 2 if second % 2 else 1, []),            # no more than half of the time
    (1, lambda second: 2 if second < 59 else 0, []),           # it was over in time
    (1, lambda second: 2 if second >= 100 else 0, [160]),      # the minute counts from when it began
])
def test_when_a_slot_is_added(slots, in_flight, expected):
    assert added_at(slots, in_flight) == expected


def after(decide, state, windows):
    for one in windows:
        state = decide(state, *one)
    return state


BUSY, CALM, SOME = (window(1.0), None), (window(0.0), None), (window(0.5), None)
WASTE, WORTH = (window(0.0), 0.149), (window(0.0), 0.15)


@pytest.mark.parametrize(("windows", "parked"), [
    ([BUSY], False), ([BUSY, BUSY], True), ([BUSY, CALM, BUSY], False), ([BUSY, SOME, BUSY], False),
    ([WASTE, WASTE], True), ([BUSY, WASTE], True), ([WORTH] * 9, False), ([WASTE, WORTH, WASTE], False),
    ([BUSY, BUSY, *[CALM] * 9], True), ([BUSY, BUSY, *[CALM] * 10], False),
    ([BUSY, BUSY, *[CALM] * 9, SOME, *[CALM] * 9], True), ([BUSY, BUSY, *[CALM] * 9, BUSY, *[CALM] * 10], False),
    ([BUSY, BUSY, *[CALM] * 10, BUSY], False), ([BUSY, BUSY, *[CALM] * 10, BUSY, BUSY], True)])
def test_when_speculation_is_parked_and_restored(windows, parked):
    state = after(spec_governor.window_over, Governed(), windows)
    assert (state.parked, state.name) == (parked, "parked" if parked else "active")


@pytest.mark.parametrize(("drafted", "accepted", "share"), [(0, 0, None), (63, 0, None), (64, 0, 0.0), (100, 15, 0.15)])
def test_few_drafts_tell_nothing(drafted, accepted, share):
    assert acceptance(drafted, accepted) == share


@pytest.mark.parametrize(("windows", "most", "tokens"), [
    ("b", 2048, 0), ("bb", 2048, 1024), ("bbb", 2048, 1024), ("bbbb", 2048, 2048), ("bbbbbbbb", 2048, 2048),
    ("bcb", 2048, 0), ("bsb", 2048, 0), ("bbbb", 1024, 1024), ("bb", 512, 0), ("bbbb" + 9 * "c", 2048, 2048),
    ("bbbb" + 10 * "c", 2048, 1024), ("bbbb" + 19 * "c", 2048, 1024), ("bbbb" + 20 * "c", 2048, 0),
    ("bbbb" + 50 * "c", 2048, 0), ("bb" + 9 * "c" + "s" + 9 * "c", 2048, 1024)])
def test_rungs_of_the_micro_batch(windows, most, tokens):
    kinds = {"b": window(1.0), "c": window(0.0), "s": window(0.5)}
    state = after(ubatch_governor.window_over, Tier(), [(kinds[letter], most) for letter in windows])
    assert (state.tokens, state.name) == (tokens, str(tokens) if tokens else "default")


SAID = """# HELP llamacpp:spec_decode_num_draft_tokens_total Speculative: Total draft tokens generated
# TYPE llamacpp:spec_decode_num_draft_tokens_total counter
llamacpp:spec_decode_num_draft_tokens_total 1.25e+06
llamacpp:spec_decode_num_accepted_tokens_total 77
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 5
"""


@pytest.mark.parametrize(("text", "expected"), [
    (SAID, (1250000, 77)), ("", None), (SAID.replace("accepted_tokens_total", "x"), None), ("nonsense\n" * 99, None)])
def test_the_counts_of_a_child(text, expected):
    assert counts(text) == expected
