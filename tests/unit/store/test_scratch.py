"""Folders for a moment: gone afterwards, and swept when whoever made them was killed."""

import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from blazar.store.scratch import scratch

OWNER = """
import sys, time
from blazar.store.scratch import scratch
with scratch("work") as folder:
    (folder / "file").write_text("x")
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The system's folder for temporary files, here and for children."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@pytest.fixture
def owner(temporary):
    """Another process that has a folder, and that folder."""
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as process:
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_it_is_there_and_then_gone(temporary):
    with scratch("work") as folder:
        (folder / "below").mkdir()
        assert folder.parent == temporary and folder.name.startswith("blazar-work-")
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(temporary.iterdir()) == []
    with pytest.raises(KeyError), scratch("work"):
        raise KeyError
    assert list(temporary.iterdir()) == []


def test_what_a_killed_one_left_goes_and_what_lives_stays(owner, temporary):
    process, folder = owner
    with scratch("work") as mine:
        assert set(temporary.iterdir()) == {mine, folder}
    process.send_signal(signal.SIGKILL)
    process.wait()
    with scratch("other"):
        assert folder.exists()
    with scratch("work") as mine:
        assert set(temporary.iterdir()) == {mine}


def test_what_is_not_ours_is_not_touched(temporary):
    (temporary / "elsewhere").mkdir()
    (temporary / "elsewhere" / "file").write_text("x")
    (temporary / "blazar-work-link").symlink_to(temporary / "elsewhere")
    (temporary / "blazar-work-file").write_text("x")
    if os.geteuid() == 0:
        (temporary / "blazar-work-other").mkdir()
        os.chown(temporary / "blazar-work-other", 12345, 12345)
    before = set(temporary.iterdir())
    with scratch("work"):
        pass
    assert set(temporary.iterdir()) == before and (temporary / "elsewhere" / "file").exists()


def test_many_at_once_each_have_their_own(temporary):
    def use(number):
        with scratch("work") as folder:
            (folder / "file").write_text(str(number))
            return (folder / "file").read_text() == str(number)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(use, range(200)))
    assert list(temporary.iterdir()) == []
