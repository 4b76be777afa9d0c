import logging

import pytest

from blazar.errors import ConfigRefused
from blazar.supervisor.alias_check import refuse_shadows, warn

INSTALLED, ALIASES = ("qwen3:q4_0", "qwen3:q8_0"), {"gpt-4o": "qwen3:q8_0"}


def entry(name, model="qwen3:q4_0"):
    return {"name": name, "model": model, "set": None, "strip": ()}


@pytest.mark.parametrize(("name", "hidden"), [("QWEN3:Q4_0", "model qwen3:q4_0"), ("qwen3", "model qwen3:q4_0"),
                                              ("gpt-4o", "alias of qwen3:q8_0")])
def test_a_name_that_means_something_already_is_refused_at_boot(name, hidden):
    with pytest.raises(ConfigRefused, match=hidden) as caught:
        refuse_shadows([entry("fine"), entry(name)], INSTALLED, ALIASES)
    assert name in str(caught.value) and "give the alias another name" in str(caught.value)
    assert caught.value.exit_code == 2


def test_others_are_let_through():
    refuse_shadows([entry("fast"), entry("qwen3:fast"), entry("hollow", "nobody")], INSTALLED, ALIASES)


def test_later_it_is_a_warning_said_once(caplog):
    told = set()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            warn([entry("fast"), entry("qwen3:q8_0"), entry("hollow", "nobody"), entry("vague", "qwen3")],
                 INSTALLED, ALIASES, told)
    assert [record.getMessage().split(" ")[1] for record in caplog.records] == ["qwen3:q8_0", "hollow", "vague"]
