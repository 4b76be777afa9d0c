"""Each type refuses what is just outside, by a file, naming key and line."""

import csv
import re
from pathlib import Path

import pytest

from blazar.config.refusal import Refusal
from blazar.config.registry import declared
from blazar.config.setting import Setting, Table, redact
from blazar.config.types import Bool, Float, Int, ListOf, MapOf, Secret, Text
from blazar.errors import ConfigRefused
from tests.support.config_files import document, load_text

DECLARED = dict(declared())
ROWS = list(csv.DictReader((Path(__file__).parents[2] / "data" / "config-keys.tsv").read_text().splitlines(),
                           delimiter="\t", quoting=csv.QUOTE_NONE))


def required_around(path):
    around = path.rpartition(".")[0]
    inner = {setting.name for other, setting in DECLARED.items()
             if setting.required and other.rpartition(".")[0] == around}
    outer = around.partition(".")[0]
    return inner | {setting.name for other, setting in DECLARED.items()
                    if setting.required and other.rpartition(".")[0] == outer}


@pytest.mark.parametrize("path", [path for path in DECLARED if "loras" not in path and "targets[]" not in path])
def test_refused_examples_are_refused_in_a_file(path, tmp_path):
    setting = DECLARED[path]
    examples = setting.type.refused_examples()
    assert examples or isinstance(setting.type, Secret)
    for example in examples:
        text = "# one\n" + document(path, example, required_around(path))
        with pytest.raises(ConfigRefused) as caught:
            load_text(text, tmp_path)
        message = str(caught.value)
        assert f"{tmp_path}/config.toml line 2" in message, text
        assert f"`{setting.name}`" in message or isinstance(example, dict) or "no_such_field" in message, message


@pytest.mark.parametrize("row", [row for row in ROWS if re.search(r"\d\.\.\d|>=", row["values"])],
                         ids=lambda row: row["key"])
def test_ranges_of_the_list(row):
    """Just outside each range of the list is refused, and its ends are accepted."""
    kind = DECLARED[row["key"]].type
    if row["key"] == "mistralrs.isq":
        assert kind.check(2) == "2" and kind.check("8") == "8"
        for value in (1, 9):
            with pytest.raises(Refusal):
                kind.check(value)
        return
    step = 1 if isinstance(kind, Int) else 0.01
    low, high = re.search(r"(?:>= (\d+))|(?:\(?([\d.]+?)\.\.([\d.]+))", row["values"]).group(1, 3)
    ends = re.search(r"([\d.]*\d)\.\.([\d.]*\d)", row["values"])
    low, high = (float(low), None) if ends is None else map(float, ends.groups())
    number = int if isinstance(kind, Int) else float
    zero_too = row["values"].startswith("0, ")
    outside = [low - step] if not zero_too else [-step]
    outside += [high + step] if high is not None else []
    for value in outside:
        with pytest.raises(Refusal):
            kind.check(number(value))
    for value in [low, *([high] if high is not None else []), *([0] if zero_too else [])]:
        assert kind.check(number(value)) == value


@pytest.mark.parametrize(("kind", "text", "value"), [
    (Int(0, 9), " 7 ", 7), (Int(-1, 9), "-1", -1), (Bool(), "Yes", True), (Bool(), "0", False),
    (Float(), "1e3", 1000.0),
    (ListOf(Text()), "a, b c ,,d", ("a", "b c", "d")), (ListOf(Text()), "", ()),
])
def test_parse(kind, text, value):
    assert kind.parse(text) == value


@pytest.mark.parametrize(("kind", "text"), [
    (Int(), "1_000"), (Int(), "٣"), (Int(), "1.0"), (Int(), "9" * 5000), (Bool(), "maybe"), (Float(), "nan"),
    (Float(), "inf"), (Float(), "1,5"),
])
def test_parse_refuses(kind, text):
    with pytest.raises(Refusal):
        kind.parse(text)


def test_a_number_in_quotes_is_told_apart():
    with pytest.raises(Refusal) as caught:
        Int(0, 65535).check("11435")
    assert caught.value.problem == 'the text "11435" is not a whole number'
    assert caught.value.remedy == "write 11435 without quotes"


def test_redact_hides_secrets_at_any_depth():
    table = Table(Setting("name", Text(), None, "Name."), Setting("key", Secret(), None, "Key.", secret=True),
                  Setting("env", MapOf(Text()), None, "Env.", secret=True), what="x")
    setting = Setting("all", MapOf(ListOf(table)), {}, "All.")
    value = setting.type.check({"m": [{"name": "me", "key": "s3cret", "env": {"A": "s3cret"}}]})
    assert redact(setting, value) == {"m": [{"name": "me", "key": "(hidden)", "env": {"A": "(hidden)"}}]}
