from types import SimpleNamespace

import pytest

from blazar.engines import flags


def setting(name="batch_size", lane="llamacpp", flag="--batch-size", default=0, emit="changed", gate="skip"):
    return SimpleNamespace(name=name, lane=lane, flag=flag, default=default, emit=emit, gate=gate)


@pytest.mark.parametrize("one, values, expected", [
    (setting(), {}, []),
    (setting(), {"batch_size": 0}, []),
    (setting(), {"batch_size": 512}, ["--batch-size", "512"]),
    (setting(emit="always"), {}, ["--batch-size", "0"]),
    (setting(default=None), {"batch_size": None}, []),
    (setting(default=None, emit="always"), {}, []),
    (setting(default=None), {"batch_size": 0}, ["--batch-size", "0"]),
    (setting(lane="whisper"), {"batch_size": 512}, []),
    (setting(flag=None), {"batch_size": 512}, []),
    (setting(default=False), {"batch_size": True}, ["--batch-size"]),
    (setting(default=True), {"batch_size": False}, []),
    (setting(default=()), {"batch_size": ("a", 2)}, ["--batch-size", "a,2"]),
    (setting(default=0.0), {"batch_size": 0.25}, ["--batch-size", "0.25"]),
])
def test_a_flag_is_written_only_for_what_differs(one, values, expected):
    assert flags.argv("llamacpp", [one], values) == expected


def test_order_is_the_tables_and_computed_ones_are_skipped():
    table = [setting("b", flag="--b"), setting("a", flag="--a"), setting("c", flag="--c")]
    values = {"a": 1, "b": 2, "c": 3}
    assert flags.argv("llamacpp", table, values, skip=frozenset({"c"})) == ["--b", "2", "--a", "1"]
