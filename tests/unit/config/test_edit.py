"""Setting and unsetting keys of real settings files: all other lines stay, byte for byte."""

import threading
import tomllib

import pytest

from blazar.config.active import ACTIVE
from blazar.config.amend import accept
from blazar.config.document import Document
from blazar.config.edit import set_value, unset
from blazar.config.render import sample
from blazar.errors import ConfigRefused

WRITTEN = """\
# the top

# about the port
port = 7   # and why
preload = [
  "a",  # first
]

# about the gateway
[gateway]
host = "::1" # here

# one model
[model_overrides."a.b"]
# inner
ctx = 5

# the other
[model_overrides.c]
ctx = 6
[[keys]]
key = "k"
"""


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(WRITTEN)
    return file


def put(file, dotted, value):
    set_value(file, tuple(dotted), value, accept)


@pytest.mark.parametrize(("path", "value", "old", "new"), [
    (("port",), 8, "port = 7   # and why\n", "port = 8   # and why\n"),
    (("host",), "x", 'host = "::1" # here\n', 'host = "x" # here\n'),
    (("model_overrides", "a.b", "ctx"), 9, "ctx = 5\n", "ctx = 9\n"),
    (("default_ctx",), 9, ']\n\n# about the g', ']\ndefault_ctx = 9\n\n# about the g'),
    (("model_overrides", "a.b", "engine"), "b1", "ctx = 5\n", 'ctx = 5\nengine = "b1"\n'),
    (("model_overrides", "c", "engine"), "b1", "ctx = 6\n", 'ctx = 6\nengine = "b1"\n\n'),
    (("model_overrides", "d:q4", "ctx"), 1, 'key = "k"\n', 'key = "k"\n\n[model_overrides."d:q4"]\nctx = 1\n'),
    (("semantic_cache", "enabled"), True, 'key = "k"\n', 'key = "k"\n\n[semantic_cache]\nenabled = true\n'),
])
def test_one_line_changes(file, path, value, old, new):
    put(file, path, value)
    assert file.read_text() == WRITTEN.replace(old, new) != WRITTEN
    put(file, path, value)
    assert file.read_text() == WRITTEN.replace(old, new)


@pytest.mark.parametrize(("path", "gone"), [
    (("port",), "port = 7   # and why\n"), (("host",), 'host = "::1" # here\n'),
    (("preload",), 'preload = [\n  "a",  # first\n]\n'), (("model_overrides", "a.b", "ctx"), "ctx = 5\n"),
    (("model_overrides", "a.b"), '[model_overrides."a.b"]\n# inner\nctx = 5\n'),
    (("model_overrides", "c"), "[model_overrides.c]\nctx = 6\n"),
])
def test_only_what_is_unset_goes(file, path, gone):
    assert unset(file, path, accept)
    assert file.read_text() == WRITTEN.replace(gone, "")
    assert not unset(file, path, accept)
    assert file.read_text() == WRITTEN.replace(gone, "")


@pytest.mark.parametrize(("before", "after"), [
    ("", "default_ctx = 9\n"), ("port = 7", "port = 7\ndefault_ctx = 9\n"),
    ("port = 7\r\n[gateway]\r\n", "port = 7\r\ndefault_ctx = 9\r\n\r\n[gateway]\r\n"),
    ("# gw\n[gateway]\n", "default_ctx = 9\n\n# gw\n[gateway]\n"), ("# words\n", "# words\ndefault_ctx = 9\n"),
    ('a = """\n[x]\n"""\n[y]\n', 'a = """\n[x]\n"""\ndefault_ctx = 9\n\n[y]\n'),
    ("a = [\n[1],\n[2]]\nb = 1\n", "a = [\n[1],\n[2]]\nb = 1\ndefault_ctx = 9\n"),
    ("resources.default_ctx = 5\n", "resources.default_ctx = 9\n"),
    ("resources = { default_ctx = 5 } # it\n", "resources = { default_ctx = 9 } # it\n"),
])
def test_odd_files(tmp_path, before, after):
    file = tmp_path / "config.toml"
    file.write_bytes(before.encode())
    put(file, ["default_ctx"], 9)
    assert file.read_bytes().decode() == after


@pytest.mark.parametrize("text", ["semantic_cache.enabled = false\n", "semantic_cache = { enabled = false }\n"])
def test_a_table_in_another_spelling(tmp_path, text):
    file = tmp_path / "config.toml"
    file.write_text(text)
    put(file, ["semantic_cache", "threshold"], 0.5)
    assert tomllib.loads(file.read_text()) == {"semantic_cache": {"enabled": False, "threshold": 0.5}}
    assert unset(file, ("semantic_cache", "threshold"), accept)
    assert tomllib.loads(file.read_text()) == {"semantic_cache": {"enabled": False}}


def test_a_key_goes_below_its_line_of_the_sample(tmp_path):
    file = tmp_path / "config.toml"
    file.write_text(text := sample(ACTIVE))
    put(file, ["port"], 9)
    assert file.read_text() == text.replace("#port = 11435\n", "#port = 11435\nport = 9\n")
    assert unset(file, ("port",), accept) and file.read_text() == text


def test_what_is_not_acceptable_is_not_written(file):
    def refuse(document: Document) -> None:
        assert document.values["port"] == 8
        raise ConfigRefused("no")
    with pytest.raises(ConfigRefused, match="no"):
        set_value(file, ("port",), 8, refuse)
    assert file.read_text() == WRITTEN and [path.name for path in file.parent.iterdir()] == ["config.toml"]


def test_many_at_once_lose_nothing(file):
    threads = [threading.Thread(target=put, args=(file, ["model_overrides", f"m{number}", "ctx"], number))
               for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = tomllib.loads(file.read_text())["model_overrides"]
    assert {name: entry["ctx"] for name, entry in told.items()} == {
        "a.b": 5, "c": 6, **{f"m{number}": number for number in range(12)}}
