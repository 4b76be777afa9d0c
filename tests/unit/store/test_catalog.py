"""The catalog: every entry is in order, and found by all its names."""

import pytest

from blazar.store import catalog
from blazar.store.companions import role_of
from blazar.store.huggingface import RemoteFile, builds_of
from blazar.store.name import parse

MODELS = [entry for entry in catalog.entries() if isinstance(entry, catalog.RepoEntry)]


def test_there_are_many_and_each_name_means_one():
    assert len(MODELS) >= 20
    names = [name for entry in catalog.entries() for name in (entry.name, *entry.aliases)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("entry", MODELS, ids=lambda entry: entry.name)
def test_entries_are_in_order(entry):
    assert str(parse(entry.name)) == entry.name and parse(entry.name).is_implied
    assert all(str(parse(alias)) == alias for alias in entry.aliases)
    assert entry.proof.startswith("https://github.com/") and "#L" in entry.proof and entry.about
    owner, _, repo = entry.repo.partition("/")
    assert owner and repo and "/" not in repo
    builds = builds_of(RemoteFile(file, 1) for file in entry.files if role_of(RemoteFile(file, 1)) == "model")
    assert builds and all(build.is_whole for build in builds)
    assert {role_of(RemoteFile(file, 1)) for file in entry.files} <= {"model", "projector"}
    for build in builds:
        assert build.quantization.upper().startswith(("Q", "F", "MXFP4")), "its quantisation is not in the file's name"


@pytest.mark.parametrize("entry", catalog.entries(), ids=lambda entry: entry.name)
def test_every_name_finds_its_entry(entry):
    for name in (entry.name, parse(entry.name).model, entry.name.upper(), *entry.aliases):
        found = catalog.find(name)
        assert found is not None and found.entry is entry


@pytest.mark.parametrize(("reference", "name", "build"), [
    ("smollm2-135m", "smollm2-135m:q4_1", ""), ("SmolLM2-135M:latest", "smollm2-135m:q4_1", ""),
    ("smollm2-135m:Q4_1", "smollm2-135m:q4_1", "q4_1"), ("qwen3-8b:Q8_0", "qwen3-8b", "q8_0"),
    ("qwen3:8b", "qwen3-8b", ""), ("qwen3", "qwen3-8b", ""), ("llama3.2:latest", "llama-3.2-3b", "")])
def test_a_build_may_be_asked_for(reference, name, build):
    found = catalog.find(reference)
    assert found is not None and (found.entry.name, found.build) == (name, build)


@pytest.mark.parametrize("reference", ["smollm2-135m:q8_0", "nope", "../x", "qwen3:999b", "unsloth/qwen3-8b", ""])
def test_what_is_not_in_it(reference):
    assert catalog.find(reference) is None


def test_wheels_are_pinned():
    for entry in catalog.entries():
        if isinstance(entry, catalog.WheelEntry):
            assert len(entry.sha256) == len(entry.wheel_sha256) == 64 and entry.license


def test_near_names():
    assert "qwen3-8b" in catalog.near(parse("quen3-8b")) and catalog.near(parse("zzzzzz")) == []
