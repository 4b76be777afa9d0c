"""The settings table: each declared once, complete, and in agreement with the list of keys."""

import csv
from pathlib import Path
from types import SimpleNamespace

import pytest

from blazar.config.config import Config
from blazar.config.frozen import freeze, thaw
from blazar.config.registry import GROUPS, SECTIONS, SETTINGS, collect, declared
from blazar.config.setting import Setting
from blazar.config.types import Bool, Choice

KEYS = Path(__file__).parents[2] / "data" / "config-keys.tsv"
ROWS = list(csv.DictReader(KEYS.read_text(encoding="utf-8").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))
DECLARED = dict(declared())
UNSET = ("(optional)", "unset", "", "(required)", "upstream default", "warm_peg.default")
TABLE_DEFAULTS = {
    "warm_peg": {"default": True, "sglang": None, "mlx": None, "llamacpp": None},
    "engine_routing": {"mode": "auto", "policy": None},
    "semantic_cache": {"enabled": False, "ttl_secs": 600, "threshold": 0.9, "max_entries": 256},
    "engine_env": {}, "model_overrides": {},
}


def test_the_list_is_whole():
    assert len(ROWS) == 345
    top = {row["key"] for row in ROWS if "." not in row["key"] and "[]" not in row["key"]}
    assert top == set(SETTINGS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["key"])
def test_row_agrees(row):
    setting = DECLARED[row["key"]]
    assert setting.type.toml_type == row["type"]
    assert (setting.group or "") == row["group"]
    assert setting.variables[:1] == tuple(row["env"].split()[:1])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["key"])
def test_default_agrees(row):
    setting, written = DECLARED[row["key"]], row["default"]
    if row["key"] in TABLE_DEFAULTS:
        assert thaw(setting.default) == TABLE_DEFAULTS[row["key"]]
    elif row["type"] == "table" and "." not in row["key"]:
        assert setting.default == {name: field.default for name, field in setting.type.fields.items()}
    elif written in UNSET and not (written == "" and setting.default == ""):
        assert setting.default is None
    else:
        expected = {"true": True, "false": False, "[]": (), '""': "", '"blazar"': "blazar"}
        default = expected.get(written, written)
        if row["type"] in ("int", "float"):
            default = (int if row["type"] == "int" else float)(written)
        assert setting.default == default and type(setting.default) is type(default)


@pytest.mark.parametrize("row", [row for row in ROWS if isinstance(DECLARED[row["key"]].type, Choice)],
                         ids=lambda row: row["key"])
def test_every_listed_choice_is_accepted(row):
    words = row["values"].split("(")[0].split(";")[0].split() if row["values"] else []
    for word in words:
        if word not in ("as", "empty", "or", "cache_type", "bool", "accepted:", "ngram*") and not word.endswith(","):
            assert DECLARED[row["key"]].type.check(word) == word


@pytest.mark.parametrize("path", DECLARED)
def test_declaration_is_complete(path):
    setting = DECLARED[path]
    assert setting.doc and setting.doc[0].isascii() and setting.doc.endswith("."), setting.doc
    assert setting.doc.count("\n") == 0
    assert setting.type.describe()
    if path == setting.name:
        assert setting.section in SECTIONS
    if setting.default is not None:
        assert freeze(setting.type.check(thaw(setting.default))) == freeze(setting.default)


def test_overlays_name_fields():
    fields = SETTINGS["model_overrides"].type.item.fields
    for setting in SETTINGS.values():
        if setting.overlay:
            assert setting.overlay in fields, setting.name
            assert fields[setting.overlay].type.toml_type == setting.type.toml_type
    same = {name for name in fields if name in SETTINGS and not isinstance(SETTINGS[name].default, dict)}
    assert same <= {setting.overlay for setting in SETTINGS.values()}


def test_a_flag_has_a_lane_and_no_two_settings_have_the_same():
    flags = [(one.lane, one.flag) for one in SETTINGS.values() if one.flag]
    assert len(set(flags)) == len(flags) > 90
    assert {lane for lane, _ in flags} == {"llamacpp"}
    assert [name for name, one in SETTINGS.items() if one.emit == "always"] == ["default_ctx", "idle_sleep_secs"]
    assert all(one.flag for one in SETTINGS.values() if one.no_flag or one.written)


def test_groups_are_those_of_the_manual():
    assert sorted(GROUPS) == ["diffusion", "gateway", "observability", "reasoning", "resources", "routing",
                              "speculative", "vision", "whisper", "yarn"]


def test_a_name_declared_twice_is_refused():
    def module(section):
        return SimpleNamespace(__name__=f"keys.{section}", SETTINGS=(Setting("port", Bool(), True, "A port."),))
    with pytest.raises(ValueError, match="port is declared in one and two"):
        collect((module("one"), module("two")))


def test_no_setting_hides_a_member_of_config():
    assert not set(SETTINGS) & set(dir(Config))
