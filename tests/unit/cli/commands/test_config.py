"""`blazar config`, with real files."""

import argparse
import io
import json
import tomllib

import pytest

from blazar.config.active import ACTIVE
from blazar.config.registry import SETTINGS
from blazar.config.waiting import waiting
from blazar.errors import ConfigRefused, UsageRefused

pytest.importorskip("blazar.cli.command")

TEXT = """
[gateway]
port = 7
[[keys]]
name = "me"
key = "s3cret"
[model_overrides."qwen2.5:q4_0"]
ctx = 5
"""


@pytest.fixture
def config(tmp_path):
    """Call `blazar config` with arguments: its exit code, and what went to stdout and stderr."""
    from blazar.cli.commands.config import Config
    from blazar.cli.context import Context
    from blazar.cli.output import Output
    file = tmp_path / "config.toml"
    file.write_text(TEXT)

    def call(*words, env=None):
        parser = argparse.ArgumentParser()
        parser.set_defaults(config=None, data_dir=None)
        command = Config()
        command.arguments(parser)
        args = parser.parse_args(words)
        out, errors = io.StringIO(), io.StringIO()
        env = {"BLAZAR_CONFIG": str(file), "HOME": str(tmp_path), **(env or {})}
        code = command.run(args, Context(args, env, Output(getattr(args, "json", False), out, errors)))
        return code, out.getvalue(), errors.getvalue()
    return call


def test_list_has_every_key_once(config):
    code, out, _ = config("list", "--json", env={"BLAZAR_KEYS": "boot:hunter2"})
    entries = {entry["key"]: entry for entry in json.loads(out)}
    assert code == 0 and [name for name in entries if name in SETTINGS] == list(SETTINGS)
    fields = [name for name in entries if name not in SETTINGS]
    assert fields == [name for name, _ in waiting(ACTIVE) if name not in SETTINGS]
    assert all(entry["active"] is (name in ACTIVE) for name, entry in entries.items())
    assert all((entry["waits_for"] is None) is entry["active"] for entry in entries.values())
    assert entries["failover"]["waits_for"] == "failover chains"
    assert [entries["port"][name] for name in ("value", "origin", "group")] == [7, "file", "gateway"]
    assert entries["keys"]["origin"] == "env" and entries["host"]["origin"] == "default"
    assert [key["key"] for key in entries["keys"]["value"]] == ["(hidden)", "(hidden)"]
    assert "hunter2" not in out and "s3cret" not in out


def test_table(config):
    _, out, _ = config("list")
    header, *rows = out.splitlines()
    assert header.split() == ["KEY", "VALUE", "ORIGIN", "GROUP", "ACTIVE"] and len(rows) > len(SETTINGS)
    [row] = [row for row in rows if row.startswith("sdcpp_tae ")]
    assert "diffusion" in row and row.endswith("  not yet: waits for the stable-diffusion.cpp lane")
    assert "s3cret" not in out
    _, out, _ = config("list", "--changed")
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["port", "keys", "model_overrides"]


def test_defaults_are_a_file(config):
    _, out, _ = config("defaults")
    assert tomllib.loads(out)["port"] == 11435


@pytest.mark.parametrize(("key", "shown"), [
    ("port", "7"), ("host", '"127.0.0.1"'), ("whisper_beam_size", "(unset)"), ("semantic_cache.enabled", "false"),
    ("model_overrides.qwen2.5:q4_0.ctx", "5"),
])
def test_get(key, shown, config):
    assert config("get", key)[:2] == (0, shown + "\n")


@pytest.mark.parametrize(("key", "words"), [
    ("prot", "did you mean port?"), ("semantic_cache.no", "there is no semantic_cache.no"),
    ("port.x", "there is no port.x"),
])
def test_get_of_nothing(key, words, config):
    with pytest.raises(UsageRefused, match=words):
        config("get", key)


def test_keys_are_never_shown(config):
    for words in (("get", "keys"), ("get", "keys", "--json")):
        _, out, _ = config(*words, env={"BLAZAR_KEYS": "boot:hunter2"})
        assert "(hidden)" in out and "hunter2" not in out and "s3cret" not in out


def test_check(config, tmp_path):
    assert config("check")[:2] == (0, f"{tmp_path}/config.toml is right\n")
    other = tmp_path / "other.toml"
    other.write_text("prot = 1")
    with pytest.raises(ConfigRefused, match="line 1, key `prot`"):
        config("check", str(other))
    with pytest.raises(ConfigRefused, match="there is no such file"):
        config("check", str(tmp_path / "missing.toml"))
