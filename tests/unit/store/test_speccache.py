"""The n-gram cache of a model: always one that the engine can read."""

import logging
import os
import struct

import pytest

from blazar.models.base import close_database
from blazar.paths import Paths
from blazar.store import speccache
from blazar.store.store import Store
from tests.support.raw_gguf import write_gguf


@pytest.fixture
def paths(tmp_path):
    yield Paths(tmp_path / "data").ensure()
    close_database()


def grams(*followers):
    """N-grams, one for each argument: the counts of the tokens that follow."""
    return b"".join(struct.pack("=5i", 1, 2, -1, -1, len(counts)) + b"".join(
        struct.pack("=2i", 7, count) for count in counts) for counts in followers)


def test_it_is_made_for_its_owner_alone(paths):
    file = speccache.make_ready(paths, "owner/m:q4_0")
    assert file == paths.data_dir / "speccache" / "owner%2Fm%3Aq4_0"
    assert file.read_bytes() == b"" and file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", grams([1]), grams([1, 2], [3], [9] * 40)])
def test_what_the_engine_wrote_is_kept(paths, content):
    file = speccache.cache_of(paths, "m")
    file.write_bytes(content)
    assert speccache.make_ready(paths, "m") == file and file.read_bytes() == content


@pytest.mark.parametrize("content", [
    b"x", b"nonsense" * 9, grams([1])[:-4], grams([1], [])[:-8], grams([0]), grams([1], [2, -1]), grams([]),
    grams([1]) + b"\0" * 16, struct.pack("=5i", 1, 2, 3, 4, 2**31 - 1)])
def test_a_broken_one_begins_anew(paths, content, caplog):
    file = speccache.cache_of(paths, "m")
    file.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert speccache.make_ready(paths, "m") == file
    assert file.read_bytes() == b"" and caplog.messages == ["m: its n-gram cache is broken, and begins anew"]


def test_one_that_has_grown_too_large_begins_anew(paths, caplog):
    file = speccache.cache_of(paths, "m")
    file.touch()
    os.truncate(file, speccache.MOST + 1)
    speccache.make_ready(paths, "m")
    assert file.stat().st_size == 0 and "has more than 32 MiB" in caplog.text


@pytest.mark.parametrize("make", [
    lambda file: file.mkdir(), lambda file: file.symlink_to(file.parent / "elsewhere"), os.mkfifo])
def test_what_is_no_file_is_left_alone(paths, make, caplog):
    file = speccache.cache_of(paths, "m")
    make(file)
    before = file.lstat().st_ino
    assert speccache.make_ready(paths, "m") is None and "m: no n-gram cache: " in caplog.text
    assert file.lstat().st_ino == before and not (file.parent / "elsewhere").exists()


def test_it_goes_with_its_model_and_with_its_models_file(paths, tmp_path):
    store = Store(paths)
    for title in ("one", "two"):
        store.install_file(write_gguf(tmp_path / "m.gguf", {"general.name": title}), "m:q4_0")
        cache = speccache.cache_of(paths, "m:q4_0")
        assert not cache.exists()
        cache.write_bytes(grams([1]))
    store.remove("m")
    assert not cache.exists()
    store.install_file(write_gguf(tmp_path / "m.gguf"), "m:q4_0")
    store.remove("m")
