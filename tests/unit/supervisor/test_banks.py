"""Banks on the disk: what is written is read again, and nothing else is believed."""

import json
import time

import pytest

from blazar.paths import Paths
from blazar.supervisor import banks
from blazar.supervisor.banks import Bank, Part


@pytest.fixture
def paths(tmp_path):
    return Paths(tmp_path / "data").ensure()


def make(paths, model, digest="d1", slots=(b"one", b"two"), saved_at=None, name="_auto"):
    folder = banks.bank_folder(paths, model)
    folder.mkdir(exist_ok=True)
    index = Bank(folder, name, model, {}).index(4096)
    fresh = {}
    for slot, content in enumerate(slots):
        file = index.with_suffix(f".{slot}.new")
        file.write_bytes(content)
        fresh[file] = Part(f"{index.stem}.{slot}.kv", len(content), len(content), banks.checksum(file))
    banks.write(index, model, {"digest": digest}, fresh, time.time() if saved_at is None else saved_at)
    return index


def names(paths):
    return sorted(str(file.relative_to(paths.sessions)) for file in paths.sessions.rglob("*") if file.is_file())


def test_only_their_owner_may_read_them(paths):
    assert paths.sessions.stat().st_mode & 0o777 == 0o700


def test_written_read_and_replaced(paths):
    index = make(paths, "owner/m:q4_0", saved_at=5.0)
    assert index.relative_to(paths.sessions).as_posix() == "owner%2Fm%3Aq4_0/_auto-4096.json"
    found = banks.read(index)
    assert (found["model"], found["origin"], found["saved_at"]) == ("owner/m:q4_0", {"digest": "d1"}, 5.0)
    assert [(part.file, part.tokens, part.size) for part in found["parts"]] == [("_auto-4096.0.kv", 3, 3),
                                                                              ("_auto-4096.1.kv", 3, 3)]
    make(paths, "owner/m:q4_0", slots=(b"fewer",))
    assert names(paths) == ["owner%2Fm%3Aq4_0/_auto-4096.0.kv", "owner%2Fm%3Aq4_0/_auto-4096.json"]
    banks.drop(index)
    assert names(paths) == []


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"model": "m"}', "[" * 5000, '{"parts": 7}'])
def test_what_makes_no_sense_is_no_bank(paths, text):
    index = make(paths, "m:q4_0")
    index.write_text(text)
    assert banks.read(index) is None


@pytest.mark.parametrize("file", ["/etc/passwd", "../m%3Aq4_0/_auto-4096.0.kv", "_auto-8192.0.kv", "_auto-4096.0/x"])
def test_a_bank_names_no_files_but_its_own(paths, file):
    index = make(paths, "m:q4_0")
    entry = json.loads(index.read_text())
    entry["parts"][0]["file"] = file
    index.write_text(json.dumps(entry))
    assert banks.read(index) is None


def test_the_bank_an_engine_died_of_goes(paths):
    index = make(paths, "m:q4_0")
    bank = Bank(index.parent, "_auto", "m:q4_0", {})
    other = make(paths, "m:q4_0", name="_auto2")
    assert not banks.blamed(bank) and not banks.blamed(None)
    banks.begin_trying(index)
    assert banks.read(index) is None
    assert banks.blamed(bank)
    assert sorted(file.name for file in index.parent.iterdir()) == ["_auto2-4096.0.kv", "_auto2-4096.1.kv", other.name]


def test_they_go_with_their_model(paths):
    for model in ("stays:q4_0", "gone:q4_0", "replaced:q4_0"):
        make(paths, model, slots=(b"x",))
    banks.sweep(paths, {"stays:q4_0": "d1", "replaced:q4_0": "d2"}, 900)
    assert names(paths) == ["stays%3Aq4_0/_auto-4096.0.kv", "stays%3Aq4_0/_auto-4096.json"]
    banks.sweep(paths, {}, 900)
    assert names(paths) == []


def test_one_that_cannot_be_opened_now_does_not_go(paths):
    index = make(paths, "m:q4_0", slots=(b"x",))
    text = index.read_text()
    index.unlink()
    index.symlink_to(index)  # as for want of descriptors, opening it fails
    banks.sweep(paths, {"m:q4_0": "d1"}, 900)
    index.unlink()
    index.write_text(text)
    assert names(paths) == ["m%3Aq4_0/_auto-4096.0.kv", "m%3Aq4_0/_auto-4096.json"]


def test_what_a_killed_daemon_left_goes(paths):
    index = make(paths, "m:q4_0", slots=(b"x",))
    for name in ("_auto-4096.0.new", "_auto-4096.tmp", "_auto-4096.3.kv", "_auto-8192.0.kv", "mine.bin"):
        (index.parent / name).write_bytes(b"x")
    (paths.sessions / "empty").mkdir()
    (paths.sessions / "file").write_text("x")
    banks.tidy(paths)
    assert names(paths) == ["file", "m%3Aq4_0/_auto-4096.0.kv", "m%3Aq4_0/_auto-4096.json", "m%3Aq4_0/mine.bin"]
    assert not (paths.sessions / "empty").exists()
