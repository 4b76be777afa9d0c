"""Modelfiles: what they say, where they are wrong, and that what is rendered reads the same."""

import contextlib
import random

import pytest

from blazar.errors import ModelfileRefused
from blazar.store.modelfile import MAX_MODELFILE, parse, read_messages, render
from blazar.store.preset import Preset, is_go_template

WHOLE = '''# a comment
from ./base.gguf
FROM mmproj.gguf

  ADAPTER "a b.gguf"
PARAMETER temperature 0.5
parameter stop "AI: "
PARAMETER stop <|end|>
PARAMETER num_ctx 4096
SYSTEM """You are
  "Mario".
"""
TEMPLATE "{{ messages }}"
MESSAGE user Hello, "you".
MESSAGE assistant """Hi
there"""
LICENSE MIT
LICENSE """Second
license"""
'''


def test_everything():
    found = parse(WHOLE)
    assert (found.sources, found.adapters) == (["./base.gguf", "mmproj.gguf"], ["a b.gguf"])
    assert found.preset == Preset(
        system='You are\n  "Mario".\n', template="{{ messages }}",
        messages=({"role": "user", "content": 'Hello, "you".'}, {"role": "assistant", "content": "Hi\nthere"}),
        parameters={"temperature": 0.5, "stop": ["AI: ", "<|end|>"], "num_ctx": 4096})
    assert found.license == "MIT\nSecond\nlicense" and found.warnings == []


def test_line_ends_and_marks_of_other_systems():
    found = parse("\ufeffFROM m\r\nSYSTEM \"\"\"a\r\nb\u2028c\"\"\"\r\n")
    assert (found.sources, found.preset.system) == (["m"], "a\nb\u2028c")


@pytest.mark.parametrize(("text", "place", "words"), [
    ("", "Modelfile", "has no FROM line"),
    ("SYSTEM hi", "Modelfile", "has no FROM line"),
    ("FROM m\nFORM x", "line 2, column 1", "'FORM' is no instruction"),
    ("FROM m\n  hello", "line 2, column 3", "begin the line with FROM"),
    ("FROM", "line 1, column 5", "a value is missing; write it like `FROM smollm2-135m`"),
    ("FROM m\nPARAMETER", "line 2, column 10", "PARAMETER stands alone"),
    ("FROM m\nPARAMETER temperature", "line 2, column 22", "a value is missing"),
    ("FROM m\nPARAMETER temprature 1", "line 2, column 11", "did you mean temperature?"),
    ("FROM m\nPARAMETER top_k 1.5", "line 2, column 11", "must be a whole number, not '1.5'"),
    ("FROM m\nPARAMETER top_p 7", "line 2, column 11", "between 0 and 1"),
    ("FROM m\nPARAMETER temperature nan", "line 2, column 11", "must be a number"),
    ("FROM m\nPARAMETER seed " + "9" * 400, "line 2, column 11", "must be a whole number"),
    ("FROM m\nMESSAGE robot hi", "line 2, column 9", "'robot' is no role"),
    ('FROM m\nSYSTEM """one\ntwo', "line 2, column 8", 'no closing """'),
    ('FROM m\nSYSTEM "one', "line 2, column 8", 'no closing "'),
    ('FROM m\nSYSTEM """one""" two', "line 2, column 17", "stands more text"),
    ("FROM m\n" + "MESSAGE user x\n" * 2000, "line 1001", "more than 1000 instructions"),
    ("x" * (MAX_MODELFILE + 1), "Modelfile", "characters"),
])
def test_refused_with_its_place(text, place, words):
    with pytest.raises(ModelfileRefused) as caught:
        parse(text)
    assert place in caught.value.message and words in caught.value.message
    assert len(caught.value.message) < 500


PIECES = ("FROM", "from m", "PARAMETER", " stop", ' "', '"""', "SYSTEM ", "MESSAGE user", "\n", "\r\n", "#", "\0", "x",
          "\u2028", " ", "TEMPLATE", "num_ctx 7")


@pytest.mark.parametrize("seed", range(20))
def test_any_text_is_read_or_refused(seed):
    chance = random.Random(seed)
    for _ in range(200):
        text = "".join(chance.choices(PIECES, k=chance.randrange(30)))
        with contextlib.suppress(ModelfileRefused):
            found = parse(text)
            written = render(found.sources[0], found.preset, found.license)
            assert "has quotes in places" in written or parse(written).preset == found.preset, text


def test_options_without_effect_are_told():
    found = parse("FROM m\nPARAMETER num_gpu 99\nPARAMETER num_ctx 8")
    assert found.preset.parameters == {"num_ctx": 8}
    assert found.warnings == ["PARAMETER num_gpu has no effect here and is left out; how models are loaded is told in "
                              "the configuration"]


def test_what_is_rendered_reads_the_same():
    preset = parse(WHOLE).preset
    again = parse(render("base:q4_0", preset, "MIT\nmore"))
    assert (again.sources, again.preset, again.license) == (["base:q4_0"], preset, "MIT\nmore")
    assert "SYSTEM has quotes in places" in render("m", Preset(system='a """ b'), None)


def test_messages():
    assert read_messages([{"role": "user", "content": "a", "images": None}]) == ({"role": "user", "content": "a"},)
    for wrong in ({"role": "user"}, {"role": "tool", "content": "a"},
                  {"role": "user", "content": "a", "images": ["x"]}):
        with pytest.raises(ModelfileRefused, match=r"messages\[0\]"):
            read_messages([wrong])


@pytest.mark.parametrize(("template", "go"), [
    ("{{ .System }}", True), ("{{- if .Prompt }}x{{ end }}", True), ("{{ range $i, $_ := .Messages }}{{ end }}", True),
    ("{% for m in messages %}{{ m.content }}{% endfor %}", False), ("{{ messages[0].content }}", False),
    ("plain", False), ("", False), ("{% if x %}{{ .5 }}{% endif %}", False)])
def test_which_kind_of_template(template, go):
    assert is_go_template(template) is go


def test_one_preset_over_another():
    base = Preset("s", ({"role": "user", "content": "a"},), {"top_k": 1, "seed": 2}, "t")
    assert Preset().over(base) == base and not Preset() and base
    found = Preset(system="x", parameters={"seed": 3}).over(base)
    assert (found.system, found.parameters, found.template) == ("x", {"top_k": 1, "seed": 3}, "t")
    assert Preset(parameters={"num_ctx": 9, "num_batch": 8}).settings() == {"default_ctx": 9, "batch_size": 8}
    assert Preset(parameters={"num_ctx": 9}, template="t").defaults() == {}
