"""`blazar keys` without a daemon, with real files."""

import argparse
import hashlib
import io
import json
import os
import tomllib
from datetime import UTC, datetime, timedelta

import pytest

from blazar.cli.commands.keys import Keys
from blazar.cli.context import Context
from blazar.cli.output import Output
from blazar.errors import ConfigRefused, UsageRefused
from blazar.models.api_usage import ApiUsage
from blazar.models.base import close_database, open_database
from blazar.models.migrate import migrate

BOB = '# mine\n[[keys]]\nname = "bob"\nkey = "sk-bob"\nrpm = 5\n'


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(BOB)
    return file


@pytest.fixture
def keys(tmp_path, file):
    """Call `blazar keys` with arguments: what went to stdout and stderr."""
    def call(*words, **env):
        parser = argparse.ArgumentParser()
        parser.set_defaults(config=None, data_dir=None)
        Keys().arguments(parser)
        args = parser.parse_args(words)
        out, errors = io.StringIO(), io.StringIO()
        env = {"BLAZAR_CONFIG": str(file), "HOME": str(tmp_path), **env}
        assert Keys().run(args, Context(args, env, Output(getattr(args, "json", False), out, errors))) == 0
        return out.getvalue(), errors.getvalue()
    return call


def refused(keys, *words, **env):
    with pytest.raises(UsageRefused) as error:
        keys(*words, **env)
    return str(error.value)


def entries(file):
    return tomllib.loads(file.read_text())["keys"]


def test_add_prints_the_secret_once_and_keeps_its_hash(keys, file):
    out, notes = keys("add", "ann", "--rpm", "60", "--tpm", "7", "--daily-tokens", "8", "--max-concurrent", "9",
                      "--weight", "2.5", "--model", "m", "--model", "n:q8_0")
    secret = out.strip()
    assert secret.startswith("sk-blazar-") and len(secret) > 40 and out == f"{secret}\n"
    assert entries(file)[1] == {"name": "ann", "models": ["m", "n:q8_0"], "rpm": 60, "tpm": 7, "daily_tokens": 8,
                                "max_concurrent": 9, "weight": 2.5,
                                "key": "sha256:" + hashlib.sha256(secret.encode()).hexdigest()}
    assert file.read_text().startswith(BOB)
    assert secret not in notes + file.read_text() and "not shown again" in notes
    assert "counts from the next start of `blazar serve`" in notes and "first one" not in notes
    assert "model 'm' not found" in notes and "once it is there" in notes
    assert keys("add", "eve")[0].strip() != secret


def test_add_in_json(keys):
    told = json.loads(keys("add", "ann", "--rpm", "60", "--json")[0])
    assert {**told, "key": "", "file": ""} == {"name": "ann", "rpm": 60, "key": "", "file": "", "in_force": False}


@pytest.mark.parametrize(("words", "said"), [
    (["bob"], "called bob already"), (["BOB"], "called BOB already"), (["a,b"], "NAME"), ([""], "NAME"),
    (["ann", "--rpm", "0"], "--rpm"), (["ann", "--tpm", "many"], "--tpm"), (["ann", "--weight", "-1"], "--weight"),
    (["ann", "--daily-tokens", "1e99"], "--daily-tokens"), (["ann", "--max-concurrent", ""], "--max-concurrent")])
def test_what_cannot_be_added_is_refused_with_words(keys, file, words, said):
    assert said in refused(keys, "add", *words)
    assert file.read_text() == BOB


def test_the_names_of_bootstrap_keys_are_taken_too(keys):
    assert "already" in refused(keys, "add", "boot", BLAZAR_KEYS="boot:hunter2")


def test_names_that_the_settings_give_to_models_are_known(keys, file):
    file.write_text(BOB + '[[remotes]]\nname = "box"\nurl = "https://h"\n')
    assert "not installed" not in keys("add", "ann", "--model", "box:big")[1]


def test_list_shows_limits_and_no_secret(keys, file):
    secret = keys("add", "ann", "--model", "m", "--weight", "0.5")[0].strip()
    out, _ = keys("list", BLAZAR_KEYS="boot:hunter2")
    rows = [line.split() for line in out.splitlines()[1:]]
    assert rows == [["bob", "all", "5", "-", "-", "-", "1", "file"], ["ann", "m", "-", "-", "-", "-", "0.5", "file"],
                    ["boot", "all", "-", "-", "-", "-", "1", "BLAZAR_KEYS"]]
    plain = keys("list", "--json", BLAZAR_KEYS="boot:hunter2")[0]
    assert json.loads(plain)[1] == {"name": "ann", "models": ["m"], "rpm": None, "tpm": None, "daily_tokens": None,
                                    "max_concurrent": None, "weight": 0.5, "from": "file"}
    for hidden in (secret, "sk-bob", "hunter2", "sha256", entries(file)[1]["key"][7:]):
        assert hidden not in out + plain


def test_without_any_key_list_says_what_that_means(keys, file):
    file.write_text("")
    assert "everybody who reaches the server is let in" in keys("list")[1]
    assert "first one" in keys("add", "ann")[1]


def test_revoke_takes_one_out(keys, file):
    keys("add", "ann")
    out, notes = keys("revoke", "ANN")
    assert out == "revoked ann\n" and "next start" in notes and file.read_text().rstrip() == BOB.rstrip()


@pytest.mark.parametrize(("name", "said"), [("bobb", "did you mean bob?"), ("x", "there is bob, boot"),
                                            ("boot", "environment variable BLAZAR_KEYS")])
def test_what_cannot_be_revoked(keys, file, name, said):
    assert said in refused(keys, "revoke", name, BLAZAR_KEYS="boot:hunter2")
    assert file.read_text() == BOB


def test_the_last_key_goes_only_when_that_is_said(keys, file):
    assert "--open" in refused(keys, "revoke", "bob")
    keys("revoke", "bob", "--open")
    assert file.read_text() == "# mine\n"
    assert "none is configured" in refused(keys, "revoke", "bob")


def test_keys_without_a_name_go_by_their_place(keys, file):
    file.write_text('[[keys]]\nkey = "a"\n' + BOB)
    keys("revoke", "key 1")
    assert [entry["name"] for entry in entries(file)] == ["bob"]


def test_a_broken_file_is_told_and_left_alone(keys, file):
    file.write_text("[[keys]]\nkey = 5\n")
    for words in (["list"], ["add", "ann"], ["revoke", "bob"]):
        with pytest.raises(ConfigRefused, match="line 2"):
            keys(*words)
    assert file.read_text() == "[[keys]]\nkey = 5\n"


@pytest.fixture
def used(tmp_path):
    folder = tmp_path / ".local" / "share" / "blazar"
    os.makedirs(folder)
    migrate(folder / "blazar.db")
    open_database(folder / "blazar.db")
    today = datetime.now(UTC).date()

    def row(key, ago, model, requests, prompt, completion):
        return {"key": key, "day": str(today - timedelta(days=ago)), "model": model, "requests": requests,
                "prompt_tokens": prompt, "completion_tokens": completion}
    ApiUsage.add([row("bob", 0, "m", 1, 2, 3), row("bob", 0, "n", 10, 20, 30), row("bob", 6, "m", 7, 7, 7),
                  row("gone", 0, "m", 4, 5, 6), row("bob", 7, "m", 99, 99, 99)])
    close_database()
    return [str(today - timedelta(days=ago)) for ago in range(8)]


def lines(out):
    return [line.split() for line in out.splitlines()[1:]]


def test_usage_of_today_of_days_and_by_model(keys, used):
    assert lines(keys("usage")[0]) == [["bob", used[0], "11", "22", "33", "55"], ["gone", used[0], "4", "5", "6", "11"]]
    assert lines(keys("usage", "Bob", "--days", "7")[0]) == [["bob", used[6], "7", "7", "7", "14"],
                                                             ["bob", used[0], "11", "22", "33", "55"]]
    assert lines(keys("usage", "gone")[0]) == [["gone", used[0], "4", "5", "6", "11"]]
    assert lines(keys("usage", "bob", "--by-model")[0]) == [["bob", used[0], "m", "1", "2", "3", "5"],
                                                            ["bob", used[0], "n", "10", "20", "30", "50"]]
    assert json.loads(keys("usage", "gone", "--by-model", "--json")[0]) == [
        {"key": "gone", "day": used[0], "model": "m", "requests": 4, "prompt_tokens": 5, "completion_tokens": 6,
         "tokens": 11}]


def test_usage_of_nobody_and_nothing(keys, tmp_path):
    assert "nothing was used" in keys("usage")[1] and "nothing was used" in keys("usage", "bob")[1]
    assert not (tmp_path / ".local").exists(), "to look makes no data dir"
    assert "did you mean bob?" in refused(keys, "usage", "bobb")
    for days in ("0", "-3", "999999"):
        assert "--days" in refused(keys, "usage", f"--days={days}")
