"""policies/session_bank, preload, ram_warm and warm_peg as tables."""

import pytest

from blazar.supervisor.actions import Save
from blazar.supervisor.policies import ram_warm, session_bank, warm_peg
from blazar.supervisor.policies.preload import Followers
from blazar.supervisor.policies.session_bank import ALL_TOGETHER, DISK_LEFT, LARGEST, BankView
from blazar.supervisor.snapshot import ChildView, Snapshot
from blazar.supervisor.states import State

GIB = 1024**3


def child(state=State.READY, **fields):
    return ChildView("m", state, 1800.0, **fields)


@pytest.mark.parametrize("view, saves", [
    (child(sleeps_after=60.0, last_used=70.0), True),
    (child(sleeps_after=60.0, last_used=70.1), False),
    (child(sleeps_after=0.0, last_used=70.0), False),
    (child(sleeps_after=60.0, last_used=70.0, in_flight=1), False),
    (child(sleeps_after=60.0, last_used=70.0, saved_at=71.0), False),
    (child(sleeps_after=60.0, last_used=70.0, saved_at=69.0), True),
    (child(sleeps_after=60.0), False),
    (child(State.DRAINING, sleeps_after=60.0, last_used=70.0), False),
])
def test_slots_are_saved_before_an_engine_falls_asleep(view, saves):
    assert session_bank.decide(100.0, Snapshot((view,))) == ([Save("m")] if saves else [])


ORIGIN = {"digest": "d", "build": "b", "ctx": 4096, "cache_type_k": "f16", "cache_type_v": "f16", "flags": "f"}


@pytest.mark.parametrize("change, why", [
    ({}, ""), ({"digest": "e"}, "another file of the model"), ({"build": "c"}, "another engine build"),
    ({"ctx": 8192}, "another context"), ({"cache_type_k": "q8_0"}, "another type of KV cache"),
    ({"cache_type_v": "q8_0"}, "another type of KV cache"), ({"flags": "g"}, "other flags"),
])
def test_a_bank_is_for_a_child_of_the_same_origin(change, why):
    assert session_bank.difference(ORIGIN, {**ORIGIN, **change}) == why
    assert session_bank.difference({**ORIGIN, **change}, ORIGIN) == why


@pytest.mark.parametrize("bank, child, why", [
    ("", "", ""), (None, "", ""), ("", "p", ""), (None, "p", ""), ("p", "p", ""), ("p", "q", "another projector"),
    ("p", "", "another projector")])
def test_a_child_that_sees_has_what_it_read_before_it_did(bank, child, why):
    assert session_bank.difference({**ORIGIN, "projector": bank}, {**ORIGIN, "projector": child}) == why


@pytest.mark.parametrize("size, free, why", [
    (LARGEST, 10 * GIB, ""), (LARGEST + 1, 10 * GIB, "it is larger than 512 MiB"),
    (1000, DISK_LEFT + 1000, ""), (1000, DISK_LEFT + 999, "the disk is nearly full"),
])
def test_which_banks_are_written(size, free, why):
    assert session_bank.refusal(size, free) == why


@pytest.mark.parametrize("banks, gone", [
    ([("a", 4, 10), ("b", 4, 20)], []),
    ([("a", 4, 10), ("b", 4, 20), ("c", 4, 30)], ["a"]),
    ([("new", 6, 950), ("old", 6, 10)], ["old"]),
    ([("first", 6, 910), ("second", 6, 950)], ["second"]),
    ([("first", 2, 910), ("second", 6, 950), ("old", 6, 40)], ["old"]),
    ([("tomorrow", 6, 5000), ("now", 6, 950)], ["tomorrow"]),
    ([("huge", 11, 990)], ["huge"]),
])
def test_which_banks_are_too_much(banks, gone):
    """Pinned are those of the last 100 s, at 1000."""
    assert session_bank.surplus([BankView(*bank) for bank in banks], 1000.0, 100.0, limit=10) == gone


def test_without_pins_the_oldest_goes_first():
    banks = [BankView("first", ALL_TOGETHER - 5, 910), BankView("second", 6, 950)]
    assert session_bank.surplus(banks, 1000.0, 0.0) == ["first"]
    assert session_bank.surplus(banks, 1000.0, 900.0) == ["second"]


@pytest.mark.parametrize("used, loaded, expected", [
    ("", (), None),
    ("aba", (), None),
    ("ababa", (), "b"),
    ("ababa", ("b",), None),
    ("aabbaabbaa", (), "b"),
    ("abacaba", (), "b"),
    ("ababac", (), None),
    ("abcabc", (), None),
    ("abcabcabc", (), "a"),
])
def test_which_model_is_expected(used, loaded, expected):
    followers = Followers()
    for model in used:
        followers.use(model)
    assert followers.expected(loaded) == expected


def test_only_another_model_is_news():
    followers = Followers()
    assert [followers.use(model) for model in "aab"] == [True, False, True]


@pytest.mark.parametrize("settings, size, free, usable, why", [
    ({"idle_ram_warm": True}, 4 * GIB, 6 * GIB, 16 * GIB, ""),
    ({"idle_ram_warm": False}, 4 * GIB, 6 * GIB, 16 * GIB, "idle_ram_warm is off"),
    ({"idle_ram_warm": True}, 5 * GIB, 6 * GIB, 16 * GIB, "memory is short"),
    ({"idle_ram_warm": True}, 7 * GIB, 6 * GIB, 16 * GIB, "memory is short"),
    ({"idle_ram_warm": True}, 1 * GIB, None, 16 * GIB, "how much memory is free is not known"),
    ({"idle_ram_warm": True, "load_mode": "mlock"}, 1 * GIB, 6 * GIB, 16 * GIB, ""),
    ({"idle_ram_warm": True, "load_mode": "direct-io"}, 1 * GIB, 6 * GIB, 16 * GIB,
     "with load_mode = direct-io the engine does not read through the page cache"),
])
def test_whose_weights_are_kept(settings, size, free, usable, why):
    assert ram_warm.refusal(settings, size, free, usable) == why


@pytest.mark.parametrize("lane, settings, fields, pegs", [
    ("llamacpp", {"default": True, "llamacpp": None}, {}, True),
    ("llamacpp", {"default": False, "llamacpp": None}, {}, False),
    ("llamacpp", {"default": False, "llamacpp": True}, {}, True),
    ("llamacpp", {"default": True, "llamacpp": False}, {}, False),
    ("piper", {"default": True}, {}, False),
    ("llamacpp", {"default": True}, {"is_awaited": True}, False),
    ("llamacpp", {"default": True}, {"restored": 7}, False),
    ("llamacpp", {"default": True}, {"capabilities": ["embedding"]}, False),
])
def test_who_is_sent_a_first_request(lane, settings, fields, pegs):
    fields = {"capabilities": ["completion"], "is_awaited": False, "restored": 0, **fields}
    assert warm_peg.decide(lane, settings, **fields) is pegs
