"""What a spelling means, as long as the directory is the same."""

from types import SimpleNamespace

import pytest

from blazar.errors import ModelNotFound
from blazar.proxy.aliases import Alias
from blazar.proxy.directory import REMEMBERED, Directory
from blazar.proxy.json_scan import BodyReader
from blazar.proxy.preset import Preset
from blazar.proxy.stages.name import Name
from tests.support.exchanges import exchange_of


def snapshot(**models):
    return {"models": {name.replace("_", ":", 1): entry for name, entry in models.items()}}


def named(stage, asked, **fields):
    exchange = exchange_of(asked=asked, **fields)
    stage(exchange)
    return exchange


@pytest.fixture
def directory():
    return Directory(snapshot(m_q4={"context_length": 4096}))


@pytest.fixture
def stage(directory):
    return Name(directory, Preset(BodyReader()), SimpleNamespace(model_overrides={}))


def test_what_is_remembered_ends_with_the_directory(directory, stage):
    for _ in range(2):
        assert (named(stage, "M").model, named(stage, "M").context_length) == ("m:q4", 4096)
    directory.replace(snapshot(m_q4={"context_length": 8192}))
    assert named(stage, "M").context_length == 8192
    directory.replace(snapshot(m_q8={}))
    assert (named(stage, "M").model, named(stage, "M").context_length) == ("m:q8", 0)
    directory.replace({})
    with pytest.raises(ModelNotFound):
        named(stage, "M")


def test_the_wish_for_a_context_ends_at_the_model(stage):
    assert [named(stage, "m", num_ctx=wished).num_ctx for wished in (0, 1024, 9999)] == [0, 1024, 4096]


def test_an_alias_is_told_each_time(directory, stage):
    directory.presets = {"short": Alias("short", "m", {"max_tokens": 7})}
    for _ in range(2):
        exchange = named(stage, "short", payload={}, upstream_body=b"{}", dialect=Relays())
        assert (exchange.alias, exchange.model) == ("short", "m:q4")
        assert exchange.headers == [("X-Blazar-Alias", "short"), ("X-Blazar-Model", "m:q4")]
        assert exchange.upstream_body == b'{"max_tokens":7}'


class Relays:
    relays = True


def test_endless_spellings_fill_no_memory(directory, stage):
    directory.aliases = {f"a{number}": "m:q4" for number in range(2 * REMEMBERED)}
    for number in range(2 * REMEMBERED):
        assert named(stage, f"a{number}").model == "m:q4"
    assert len(stage._meant) <= REMEMBERED
