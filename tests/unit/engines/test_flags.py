from types import SimpleNamespace

import pytest

from blazar.engines import flags
from blazar.engines.help_text import Flag
from blazar.engines.manifest import Manifest
from blazar.errors import FlagMissing


def setting(name="batch_size", lane="llamacpp", flag="--batch-size", default=0, emit="changed", gate="skip",
            no_flag=None, written=None):
    return SimpleNamespace(name=name, lane=lane, flag=flag, default=default, emit=emit, gate=gate, no_flag=no_flag,
                           written=written)


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
    (setting(default=True, no_flag="--no-batch"), {"batch_size": False}, ["--no-batch"]),
    (setting(default=None, no_flag="--no-batch"), {"batch_size": True}, ["--batch-size"]),
    (setting(default=False, written=int), {"batch_size": True}, ["--batch-size", "1"]),
    (setting(written=lambda value: value or None, emit="always"), {"batch_size": 0}, []),
])
def test_a_flag_is_written_only_for_what_differs(one, values, expected):
    assert flags.argv("llamacpp", [one], values) == expected


def test_order_is_the_tables_and_computed_ones_are_skipped():
    table = [setting("b", flag="--b"), setting("a", flag="--a"), setting("c", flag="--c")]
    values = {"a": 1, "b": 2, "c": 3}
    assert flags.argv("llamacpp", table, values, skip=frozenset({"c"})) == ["--b", "2", "--a", "1"]


OLD = Manifest("1", {"--model": Flag(("--model",), "FILE"), "--mode": Flag(("--mode",), "{a,b}", ("a", "b"))})


def test_a_flag_that_the_build_lacks_is_left_out_with_a_sentence():
    gate = flags.Gate(OLD, "the engine b1", "solo:q4_0")
    table = [setting(), setting("mode", flag="--mode", default=""), setting("other", flag="--mode", default="")]
    assert flags.argv("llamacpp", table, {"batch_size": 64, "mode": "a", "other": "c"}, gate=gate) == ["--mode", "a"]
    assert gate.skipped == ["batch_size has no effect: the engine b1 has no --batch-size",
                            "other has no effect: the engine b1 takes a, b for --mode, not c"]


def test_a_setting_may_refuse_instead():
    gate = flags.Gate(OLD, "the engine b1", "solo:q4_0")
    with pytest.raises(FlagMissing) as caught:
        flags.argv("llamacpp", [setting(gate="refuse")], {"batch_size": 64}, gate=gate)
    assert caught.value.message.startswith(
        "solo:q4_0 did not load: batch_size needs another engine, since the engine b1 has no --batch-size; ")
    assert flags.argv("llamacpp", [setting(gate="refuse")], {}, gate=gate) == []


@pytest.mark.parametrize("manifest", [None, Manifest(problem="it did not end within 10 s")])
def test_without_a_manifest_every_flag_passes(manifest):
    gate = flags.Gate(manifest, "the engine b1", "solo:q4_0")
    assert flags.argv("llamacpp", [setting(gate="refuse")], {"batch_size": 64}, gate=gate) == ["--batch-size", "64"]
    assert gate.skipped == []
