import os
import time

from blazar.download.partial import try_claim
from blazar.download.sweep import sweep
from tests.support.downloads import leave_partial, names

DAY = 86400


def old(folder, days):
    for path in folder.iterdir():
        os.utime(path, (time.time() - days * DAY,) * 2)


def test_what_is_old_and_nobodys_goes(tmp_path):
    leave_partial(tmp_path / "dead", b"abc", "u", None, 9, [(0, 3)])
    leave_partial(tmp_path / "held", b"abc", "u", None, 9, [(0, 3)])
    (tmp_path / "orphan.part.json").write_text("{}")
    (tmp_path / "cut.part.json.new").write_text("{")
    (tmp_path / "model.gguf").write_text("not ours")
    (tmp_path / "folder").mkdir()
    old(tmp_path, 8)
    leave_partial(tmp_path / "young", b"abc", "u", None, 9, [(0, 3)])
    holder = try_claim(tmp_path / "held")
    removed = sweep(tmp_path, older_than_days=7)
    holder.close()
    assert [target.name for target in removed] == ["cut", "dead", "orphan"]
    assert names(tmp_path) == ["folder", "held.part", "held.part.json", "model.gguf", "young.part", "young.part.json"]


def test_a_partial_lives_as_long_as_its_state_is_written(tmp_path):
    leave_partial(tmp_path / "m", b"abc", "u", None, 9, [(0, 3)])
    os.utime(tmp_path / "m.part", (0, 0))
    assert sweep(tmp_path, older_than_days=7) == []
    assert sweep(tmp_path, older_than_days=7, now=time.time() + 8 * DAY) == [tmp_path / "m"]
    assert names(tmp_path) == []


def test_no_folder_is_nothing_to_sweep(tmp_path):
    assert sweep(tmp_path / "missing", older_than_days=0) == []
