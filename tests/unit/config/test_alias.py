"""[[alias]]: what may be set and stripped, and what is said when it may not."""

import pytest

from blazar.config.tables.alias import SETTABLE
from blazar.errors import ConfigRefused
from tests.support.config_files import load_text

ENTRY = '[[alias]]\nname = "fast"\nmodel = "m"\n'


def test_an_entry(tmp_path):
    entry, = load_text(ENTRY + 'strip = ["seed"]\n[alias.set]\nsystem = "Be brief.\\nAlways."\ntemperature = 0\n'
                       'stop = ["END"]\nchat_template_kwargs = { enable_thinking = false }\n', tmp_path).alias
    assert dict(entry["set"]) == {"system": "Be brief.\nAlways.", "temperature": 0.0, "stop": ("END",),
                                  "chat_template_kwargs": {"enable_thinking": False}}
    assert entry["strip"] == ("seed",)


@pytest.mark.parametrize(("text", "words"), [
    ('[alias.set]\ntemprature = 1', "did you mean `temperature`?"),
    ('[alias.set]\nmodel = "n"', "it belongs to the request itself"),
    ('[alias.set]\nnum_predict = 7', "write `max_tokens`"),
    ('[alias.set]\nthink = false', "enable_thinking = false"),
    ('[alias.set]\nnum_ctx = 7', "[model_overrides]"),
    ('[alias.set]\ntemperature = "warm"', "is not a number"),
    ('[alias.set]\ntop_p = 2', "out of range"),
    ('[alias.set]\nstop = "END"', "is not a list"),
    ('[alias.set]\nsystem = ""', "it is empty"),
    ('strip = ["messages"]', "cannot be taken out of a request"),
    ('sets = 1', "did you mean `set`?"),
    ('[[alias]]\nname = "b"\nmodel = "FAST"', "FAST is an alias itself"),
    ('[[alias]]\nname = "b"\nmodel = "fast:latest"', "fast:latest is an alias itself"),
    ('[[alias]]\nname = "Fast:latest"\nmodel = "n"', "another entry of [[alias]] is called fast"),
    ('[[alias]]\nname = "own/er"\nmodel = "m"', "has not the right form"),
    ('[model_overrides.FAST]\nctx = 1', "which runs in the engine of m"),
])
def test_refused_with_what_to_write_instead(tmp_path, text, words):
    with pytest.raises(ConfigRefused) as caught:
        load_text(ENTRY + text, tmp_path)
    assert words in str(caught.value) and f"{tmp_path}/config.toml line " in str(caught.value)


def test_every_field_that_may_be_set_refuses_something(tmp_path):
    for name, kind in SETTABLE.items():
        assert kind.refused_examples(), name
