"""Folders for downloads that outlive whoever filled them."""

import pytest

from blazar.download.sweep import KEPT
from blazar.paths import Paths
from blazar.store.downloads import download_folder
from blazar.store.store import Store
from tests.support.downloads import grow_old


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
    grow_old(old, KEPT + 60)
    grow_old(used, KEPT + 60)
    with download_folder(paths, "used", never):
        assert not old.exists() and new.exists() and used.exists()


def test_an_old_download_that_somebody_still_works_on_stays(paths):
    """However long no byte has come, or however far the clock has jumped."""
    with download_folder(paths, "slow", never) as folder:
        (folder / "x.gguf.part").write_bytes(b"half")
        grow_old(folder, KEPT + 60)
        with download_folder(paths, "other", never):
            assert (folder / "x.gguf.part").read_bytes() == b"half"


def test_a_daemon_that_begins_collects_what_is_given_up(paths):
    old, new, held = leave(paths, "old"), leave(paths, "new"), leave(paths, "held")
    grow_old(old, KEPT + 60)
    with download_folder(paths, "held", never):
        grow_old(held, KEPT + 60)
        Store(paths, holds_daemon_lock=True).tidy()
        assert not old.exists() and new.exists() and held.exists()
