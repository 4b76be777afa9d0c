from pathlib import Path

import pytest

from blazar.config.config import Config
from blazar.config.effective import effective
from blazar.config.registry import SETTINGS
from blazar.engines.help_text import read_flags
from blazar.engines.lane import Launch
from blazar.engines.llamacpp import LlamaCpp
from blazar.engines.manifest import Manifest
from blazar.engines.program import Program
from blazar.engines.router import Unwritable, argv, fingerprint, model_of, pairs, section, section_of, shared
from tests.support.programs import HELP

PROGRAM = Program("llamacpp", ("/usr/bin/llama-server",), "PATH")
MANIFEST = Manifest("b11434", read_flags((HELP / "llama-server-b11434.txt").read_text()))

GOLDEN = """\
[owner/solo:ud-q4_0,~:]
alias = owner/solo:ud-q4_0
model = /models/solo.gguf
metrics = true
ctx-size = 8192
parallel = 2
jinja = true
mmproj = /models/eyes.gguf
lora-scaled = /srv/a.gguf:0.5
chat-template-kwargs = {"reasoning_effort": "high", "a b": "c, d"}
cache-type-k = q8_0
cache-type-v = q8_0
kv-unified = true
sleep-idle-seconds = 300
reasoning-budget = 64
no-warmup = true
no-perf = true
t = 3
"""


def words(settings):
    """The flags of a model's own child."""
    config = Config.from_dict(settings)
    command = LlamaCpp(SETTINGS.values()).command(Launch(
        model="owner/solo:ud-q4_0", file=Path("/models/solo.gguf"), program=PROGRAM, secret_file=None,
        facts={"format": "gguf", "context_length": 32768}, settings=effective(config, "owner/solo:ud-q4_0"),
        manifest=MANIFEST, companions=(("projector", Path("/models/eyes.gguf")),)))
    return command.argv[1:]


def test_a_section_holds_what_the_models_own_child_is_told():
    overrides = {"owner/solo": {"ctx": 4096, "slots": 2, "cache_type": "q8_0", "warmup": False, "reasoning_budget": 64,
                                "loras": [{"path": "/srv/a.gguf", "scale": 0.5}], "reasoning_effort": "high",
                                "extra_args": ["--no-perf", "-t", "3"]}}
    made = words({"model_overrides": overrides, "chat_template_kwargs": '{"a b": "c, d"}'})
    assert section("owner/solo:ud-q4_0", pairs(made, MANIFEST)) == GOLDEN


def test_without_a_manifest_a_word_that_begins_like_a_flag_is_one():
    assert pairs(["--jinja", "--temp", "-1", "--alias", "a", "-t", "3", "--mlock"], Manifest()) == [
        ("--jinja", "true"), ("--temp", "-1"), ("-t", "3"), ("--mlock", "true")]


def test_a_value_may_begin_like_a_flag_where_the_engine_wants_a_value():
    found = pairs(["--chat-template", "--odd", "--jinja"], MANIFEST)
    assert found == [("--chat-template", "--odd"), ("--jinja", "true")]


@pytest.mark.parametrize("given, why", [
    (["--override-kv", "a=int:1", "--override-kv", "b=int:2"], "--override-kv stands there twice"),
    (["--control-vector-layer-range", "1", "2"], "--control-vector-layer-range takes two values")])
def test_what_a_section_cannot_say(given, why):
    with pytest.raises(Unwritable, match=why):
        pairs(given, MANIFEST)


@pytest.mark.parametrize("value", ["top_k;top_p", "a # b", "two\nlines", " led", "trailed\t", "cr\r"])
def test_what_no_section_can_hold(value):
    with pytest.raises(Unwritable, match="the value of --samplers has a character that a preset file cannot hold"):
        section("solo:q4_0", [("--samplers", value)])


def test_what_all_models_share_goes_to_the_router_when_no_section_can_hold_it():
    one = [("--model", "/a#b.gguf"), ("--samplers", "a;b"), ("--temp", "1"), ("--timeout", "60")]
    two = [("--model", "/a#b.gguf"), ("--samplers", "a;b"), ("--temp", "1"), ("--grammar", "x#"), ("--timeout", "60")]
    assert shared([one, two]) == [("--samplers", "a;b"), ("--timeout", "60")]
    assert shared([]) == []


def test_the_command_of_the_router():
    assert argv(("engine",), "/run/router.ini", 0, []) == ("engine", "--models-preset", "/run/router.ini")
    assert argv(("engine",), "p", 3, [("--timeout", "60")]) == ("engine", "--models-preset", "p", "--models-max", "3",
                                                               "--timeout", "60")


def test_a_section_is_named_after_its_model():
    assert model_of(section_of("owner/m:ud-q4_k_xl")) == "owner/m:ud-q4_k_xl"
    names = [part.strip() for part in section_of("solo:q4_0").split(",")]
    assert min(names) == "solo:q4_0" and section_of("solo:q4_0").endswith(":")


def test_the_fingerprint_changes_with_any_model():
    assert fingerprint({"a": "1", "b": "2"}) == fingerprint({"b": "2", "a": "1"})
    assert len({fingerprint(store) for store in ({}, {"a": "1"}, {"a": "2"}, {"b": "1"}, {"a": "1", "b": "2"})}) == 5
