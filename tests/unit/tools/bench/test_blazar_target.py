"""The configuration under which Blazar is measured."""

import tomllib

from blazar.config.active import ACTIVE
from blazar.config.load import load
from tools.bench.blazar_target import LIMITS, config_text


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
