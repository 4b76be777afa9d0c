"""Folders for downloads that outlive whoever filled them."""

import os
import time

import pytest

from blazar.paths import Paths
from blazar.store.downloads import KEPT, download_folder


@pytest.fixture
def paths(tmp_path):
    return Paths(tmp_path / "data").ensure()


def never(folder):
    raise AssertionError("nobody else has it")


def leave(paths, what, content=b"half"):
    """A download that fails after some bytes."""
    with pytest.raises(KeyError), download_folder(paths, what, never) as folder:
        (folder / "x.gguf.part").write_bytes(content)
        (folder / "x.gguf.part.json").write_text("{}")
        raise KeyError
    return folder


def test_what_ends_well_is_gone_and_what_fails_is_found_again(paths):
    folder = leave(paths, "a")
    with download_folder(paths, "a", never) as again:
        assert again == folder and (again / "x.gguf.part").read_bytes() == b"half"
    assert not folder.exists()


def test_nothing_is_kept_of_what_never_came(paths):
    assert not leave(paths, "a", b"").exists()


def test_one_at_a_time(paths):
    seen = []

    def waiting(folder):
        seen.append(folder)
        raise KeyError

    with download_folder(paths, "a", never) as folder:
        with pytest.raises(KeyError), download_folder(paths, "a", waiting):
            raise AssertionError
        with download_folder(paths, "b", never):
            pass
        assert seen == [folder] and folder.is_dir()


def test_what_nobody_went_on_with_is_given_up(paths):
    old, new, used = leave(paths, "old"), leave(paths, "new"), leave(paths, "used")
    long_ago = time.time() - KEPT - 60
    for path in (old, *old.iterdir(), used, *used.iterdir()):
        os.utime(path, (long_ago, long_ago))
    with download_folder(paths, "used", never):
        assert not old.exists() and new.exists() and used.exists()


def test_an_old_download_that_somebody_still_works_on_stays(paths):
    """However long no byte has come, or however far the clock has jumped."""
    with download_folder(paths, "slow", never) as folder:
        (folder / "x.gguf.part").write_bytes(b"half")
        for path in (folder, *folder.iterdir()):
            os.utime(path, (0, 0))
        with download_folder(paths, "other", never):
            assert (folder / "x.gguf.part").read_bytes() == b"half"
