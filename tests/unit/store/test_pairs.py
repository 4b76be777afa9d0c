"""Which draft belongs to a model."""

from dataclasses import replace

import pytest

from blazar.models.base import close_database
from blazar.paths import Paths
from blazar.store import catalog
from blazar.store.gguf import Header
from blazar.store.name import parse
from blazar.store.pairs import family_of, pair_of
from blazar.store.pieces import Piece
from blazar.store.store import Store
from tests.support.raw_gguf import write_gguf


@pytest.fixture
def store(tmp_path):
    yield Store(Paths(tmp_path / "data"))
    close_database()


def install(store, folder, name, elements=64):
    store.install_file(write_gguf(folder / "m.gguf", {"general.name": name}, elements=elements), name)
    return store.get(name)


def test_the_catalogs_partner(store, tmp_path):
    large = install(store, tmp_path, "qwen3-8b:q8_0")
    assert pair_of(large, store.every()).why == "its draft is not here (`blazar pull qwen3-0.6b`)"
    install(store, tmp_path, "qwen3-0.6b:f16", elements=128)
    small = install(store, tmp_path, "qwen3-0.6b:q4_0")
    install(store, tmp_path, "other:q4_0")
    found = pair_of(large, store.every())
    assert (found.path, found.name, found.why) == (small.file, "qwen3-0.6b:q4_0", "")
    assert pair_of(small, store.every()).why == "no draft came with it and the catalog pairs none with it"


def test_one_that_came_with_the_model_comes_first(store, tmp_path):
    large = install(store, tmp_path, "qwen3-8b:q8_0")
    own = Piece("draft", tmp_path / "own.gguf", "0" * 64, 1, "own.gguf")
    found = pair_of(replace(large, pieces=(*large.pieces, own)), [install(store, tmp_path, "qwen3-0.6b:q4_0")])
    assert (found.path, found.name) == (own.path, "own.gguf")


def test_partners_of_the_catalog_are_entries_and_smaller():
    paired = [entry for entry in catalog.entries() if isinstance(entry, catalog.RepoEntry) and entry.draft]
    assert len(paired) >= 8
    for entry in paired:
        found = catalog.find(entry.draft)
        assert found is not None and found.entry.name == entry.draft and found.entry is not entry
        assert parse(entry.draft).model.split("-")[0].rstrip("0123456789.") in entry.name


@pytest.mark.parametrize(("metadata", "tensors", "family"), [
    ({"general.architecture": "llama"}, {}, "draft"), ({"general.architecture": "eagle3"}, {}, "eagle3"),
    ({"general.architecture": "dflash"}, {}, "dflash"),
    ({"general.architecture": "dflash"}, {"markov_w1.weight": 1}, "dspark"),
    ({"general.architecture": "qwen35", "qwen35.block_count": 3}, {"blk.2.nextn.eh_proj.weight": 1}, "mtp"),
    ({"general.architecture": "qwen35", "qwen35.block_count": 4}, {"blk.2.nextn.eh_proj.weight": 1}, "draft")])
def test_how_a_draft_file_is_used(metadata, tensors, family):
    assert family_of(Header(3, 1, metadata, tensor_bytes=tensors)) == family
