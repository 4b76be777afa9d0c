"""`blazar config set`, `unset` and `edit`, with real files and real editors."""

import argparse
import io
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from blazar.cli.commands.config import Config
from blazar.cli.context import Context
from blazar.cli.output import Output
from blazar.errors import ConfigRefused, UsageRefused

TEXT = '# mine\nport = 7 # seven\n\n[engine_env]\nTOKEN = "s3cret"\n'


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(TEXT)
    return file


@pytest.fixture
def config(tmp_path, file):
    """Call `blazar config` with arguments: what went to stdout and stderr; `notes` is the latter, also of a refusal."""
    def call(*words, **env):
        parser = argparse.ArgumentParser()
        parser.set_defaults(config=None, data_dir=None)
        Config().arguments(parser)
        args = parser.parse_args(words)
        out, errors = io.StringIO(), io.StringIO()
        call.notes = errors.getvalue
        env = {"BLAZAR_CONFIG": str(file), "HOME": str(tmp_path), "PATH": os.environ["PATH"], **env}
        assert Config().run(args, Context(args, env, Output(stream=out, errors=errors))) == 0
        return out.getvalue(), errors.getvalue()
    return call


@pytest.mark.parametrize(("key", "value", "line"), [
    ("port", "8", "port = 8 # seven"), ("host", "::1", 'host = "::1"'), ("host", '"::1"', 'host = "::1"'),
    ("devices", "A, B", 'devices = ["A", "B"]'), ("devices", '["A", "B"]', 'devices = ["A", "B"]'),
    ("devices", "", "devices = []"),
    ("sessions", "off", "sessions = false"), ("log_level", "WARN", 'log_level = "warn"'),
    ("server_tools", "true", "server_tools = true"), ("idle_timeout_secs", "90", "idle_timeout_secs = 90"),
    ("slot_prompt_similarity", "1", "slot_prompt_similarity = 1.0"),
    ("sdcpp_embd_dir", "~/bin", 'sdcpp_embd_dir = "~/bin"'),
    ("semantic_cache.enabled", "yes", "[semantic_cache]\nenabled = true"),
    ("model_overrides.qwen2.5:q4_0.ctx", "5", '[model_overrides."qwen2.5:q4_0"]\nctx = 5'),
    ('model_overrides."qwen2.5".ctx', "5", '[model_overrides."qwen2.5"]\nctx = 5'),
    ("model_overrides.m.sampler_defaults.temperature", "0.5",
     "[model_overrides.m.sampler_defaults]\ntemperature = 0.5"),
])
def test_set(config, file, key, value, line):
    told, _ = config("set", key, value)
    assert told == f"{key} = {line.rpartition(' = ')[2].removesuffix(' # seven')}\n"
    assert f"\n{line}\n" in file.read_text() and file.read_text().startswith("# mine\nport = ")
    config("check")
    config("unset", key)
    assert line not in file.read_text()


@pytest.mark.parametrize(("key", "value", "error", "words"), [
    ("prot", "1", UsageRefused, "did you mean port?"), ("port", "70000", UsageRefused, "from 0 to 65535"),
    ("gateway.port", "1", UsageRefused, "write port for gateway.port"),
    ("port.x", "1", UsageRefused, "port has no fields"),
    ("keys", "x", UsageRefused, "blazar keys add NAME"), ("alias", "x", UsageRefused, "blazar config edit"),
    ("semantic_cache", "{}", UsageRefused, "blazar config set semantic_cache.enabled VALUE"),
    ("model_overrides", "{}", UsageRefused, "blazar config set model_overrides.NAME."),
    ("model_overrides.m.no", "1", UsageRefused, "is a table; set one field"),
    ("semantic_cache.no", "1", UsageRefused, "has no field no; it knows enabled"),
    ("devices", '["A", 5]', UsageRefused, "the number 5 is not text"),
    ("tls_cert", "/x.pem", ConfigRefused, "tls_key"),  # a rule between two keys
])
def test_what_is_refused_changes_nothing(config, file, key, value, error, words):
    with pytest.raises(error, match=words.replace("?", r"\?")):
        config("set", key, value)
    assert file.read_text() == TEXT and [path.name for path in file.parent.iterdir()] == ["config.toml"]


def test_of_two_that_need_each_other_the_way_is_told(config):
    with pytest.raises(ConfigRefused):
        config("set", "tls_cert", "/x.pem")
    assert "`blazar config edit` changes several settings at once" in config.notes()


def test_a_change_may_mend_a_file_but_not_leave_it_broken(config, file):
    file.write_text("port = 70000\nctx = 1\n")
    for words in (("set", "port", "7"), ("unset", "port")):
        with pytest.raises(ConfigRefused, match="key `ctx`"):
            config(*words)
    file.write_text("port = 70000\n")
    config("set", "port", "7")
    assert file.read_text() == "port = 7\n"


def test_what_is_said(config, file):
    file.chmod(0o640)
    told, notes = config("set", "engine_env.TOKEN", "hunter2")
    assert told == 'engine_env.TOKEN = "(hidden)"\n' and "hunter2" in file.read_text()
    assert "counts from the next start" in notes and file.stat().st_mode & 0o777 == 0o640
    assert "RUST_LOG is set in this environment" in config("set", "log_level", "warn", RUST_LOG="info")[1]
    assert "does not act on it yet" in config("set", "otlp_service", "x")[1]
    told, notes = config("unset", "host")
    assert told == "" and f"{file} does not have host" in notes
    with pytest.raises(UsageRefused, match="blazar keys revoke"):
        config("unset", "keys")


def test_a_new_file_is_for_its_owner_alone(config, file):
    file.unlink()
    assert "does not have port" in config("unset", "port")[1] and not file.exists()
    config("set", "port", "9")
    assert file.read_text() == "port = 9\n" and file.stat().st_mode & 0o777 == 0o600


def test_processes_at_once_lose_nothing(file):
    keys = ["default_ctx", "engine_check_secs"]
    with ThreadPoolExecutor() as pool:
        done = list(pool.map(lambda key: subprocess.run(
            [sys.executable, "-m", "blazar.cli.main", "--config", file, "config", "set", key, "4096"],
            env={"HOME": str(file.parent), "PATH": os.environ["PATH"], "PYTHONPATH": os.getcwd()},
            capture_output=True), keys))
    assert [one.returncode for one in done] == [0, 0], done
    assert all(f"\n{key} = 4096\n" in file.read_text() for key in keys)


def editor(tmp_path, script):
    file = tmp_path / "bin" / "editor"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return f"{file} --wait"


def test_edit_takes_over_what_is_right(config, file, tmp_path):
    told, _ = config("edit", EDITOR="false", VISUAL=editor(tmp_path, 'sed -i "s/seven/eight/" "$2"'))
    assert told == f"{file} is right, and in its place\n" and file.read_text() == TEXT.replace("seven", "eight")
    assert "nothing was changed" in config("edit", EDITOR="true")[1]
    file.unlink()
    config("edit", EDITOR=editor(tmp_path, 'echo "port = 9" > "$2"'))
    assert file.read_text() == "port = 9\n" and file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "config.toml"]


def test_edit_begins_with_the_sample(config, file, tmp_path):
    file.unlink()
    config("edit", EDITOR=editor(tmp_path, f'cp "$2" {tmp_path}/seen'))
    assert "#port = 11435\n" in (tmp_path / "seen").read_text() and not file.exists()


@pytest.mark.parametrize(("script", "words", "kept"), [
    ('echo "port = 70000" > "$2"', "out of range", True), ("exit 3", "exit code 3", False),
    ('echo "port = 8" > "$2"; echo "# theirs" >> {file}', "somebody else changed it", True),
])
def test_edit_loses_nothing(config, file, tmp_path, script, words, kept):
    with pytest.raises(ConfigRefused, match=words):
        config("edit", EDITOR=editor(tmp_path, script.format(file=file)))
    assert file.read_text() == TEXT + ("# theirs\n" if "theirs" in script else "")
    drafts = list(tmp_path.glob(".config.*.toml"))
    assert len(drafts) == kept and all(draft.stat().st_mode & 0o777 == 0o600 for draft in drafts)


def test_without_an_editor_the_way_is_told(config, tmp_path):
    with pytest.raises(UsageRefused, match="no editor no-such-editor here; name one, as in `EDITOR=nano"):
        config("edit", EDITOR="no-such-editor")
