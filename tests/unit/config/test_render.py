"""The dump, the sample and the page say the same as the table."""

import re
import tomllib

from blazar.config.registry import SETTINGS, declared
from blazar.config.render import defaults, literal, reference, sample
from tests.support.config_files import ALL_ACTIVE, load_text


def uncommented(text: str) -> str:
    return "\n".join(line[1:] if re.match(r"#[^ #]", line) else line for line in text.splitlines())


def test_the_sample_loads_back_to_the_defaults(tmp_path):
    plain = load_text("", tmp_path).as_dict()
    config = load_text(uncommented(sample(ALL_ACTIVE)), tmp_path)
    assert config.as_dict() == plain and config.warnings == ()
    written = {name for name in SETTINGS if config.origin(name) == "file"}
    assert written == {name for name, setting in SETTINGS.items() if setting.default is not None}


def test_the_sample_as_it_is_sets_nothing(tmp_path):
    text = sample(ALL_ACTIVE)
    assert tomllib.loads(text) == {}
    for path, setting in declared():
        assert setting.doc in text or "." in path, path
        within_an_entry = "targets[]" in path or "loras[]" in path
        assert f"{setting.name} = " in text or f"[{setting.name}]" in text or within_an_entry, path


def test_the_dump_loads_back_to_the_defaults(tmp_path):
    dump = defaults()
    assert load_text(dump, tmp_path).as_dict() == load_text("", tmp_path).as_dict()
    assert "whisper_beam_size" not in dump and "port = 11435" in dump


def test_inactive_keys_are_marked():
    page = reference(frozenset({"port"}))
    assert "| `port` |" in page and "| `host` ○ |" in page
    text = sample(frozenset({"port"}))
    assert text.count("Not active yet.") == len(SETTINGS) - 1
    for _, setting in declared():
        assert f"`{setting.name}`" in page


def test_literals_are_toml():
    for value in (1, 0.5, 1e22, True, 'a"b\\n\x7fü\U0001f600\n', ["a", [1]], {"a b": {"c": [{"d": 1}]}, "e": False}):
        assert tomllib.loads(f"x = {literal(value)}")["x"] == value
