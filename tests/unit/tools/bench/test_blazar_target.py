"""The configuration under which Blazar is measured."""

import tomllib

from blazar.config.active import ACTIVE
from blazar.config.load import load
from tools.bench import process
from tools.bench.blazar_target import KEY_NAMES, LIMITS, Blazar, config_text
from tools.bench.counts import Counts
from tools.bench.machine import Layout


def test_every_key_has_every_limit_that_is_kept():
    text = config_text(["a", "b"], frozenset({"keys[].rpm", "keys[].tpm"}))
    assert tomllib.loads(text)["keys"] == [
        {"name": f"bench {number}", "key": key, "rpm": LIMITS["rpm"], "tpm": LIMITS["tpm"]}
        for number, key in enumerate(("a", "b"))]


def test_limits_that_are_not_kept_yet_are_left_out():
    assert tomllib.loads(config_text(["a"], frozenset()))["keys"] == [{"name": "bench 0", "key": "a"}]


def test_this_version_takes_it_as_it_is(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(config_text(["a"], ACTIVE))
    config = load(file, {}, {}, must_exist=True)
    assert [key["name"] for key in config.keys] == ["bench 0"] and config.singleflight and not config.warnings


def test_its_keys_are_those_whose_tokens_count():
    keys = tomllib.loads(config_text([f"secret {number}" for number in range(8)], frozenset()))["keys"]
    assert tuple(key["name"] for key in keys) == KEY_NAMES and len(set(KEY_NAMES)) == 8


def test_metrics_that_are_refused_and_an_audit_log_that_is_not_there_tell_nothing(tmp_path):
    blazar = Blazar(Layout(0, 0), tmp_path)
    blazar.to = f"127.0.0.1:{process.free_port()}"
    assert blazar.counts() == Counts(None, None, None)
