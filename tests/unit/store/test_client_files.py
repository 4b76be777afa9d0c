"""Files that clients keep here."""

import pytest

from blazar.errors import FileTooLarge
from blazar.paths import Paths
from blazar.store.client_files import (
    FileWriter,
    file_path,
    lines,
    new_file_id,
    remove,
    sweep_files,
    sweep_partials,
    take,
)


@pytest.fixture
def paths(tmp_path):
    return Paths(tmp_path).ensure()


def written(paths, data, taken=True):
    writer = FileWriter(paths, new_file_id())
    writer.write(data)
    writer.seal()
    if taken:
        take(paths, writer.id)
    writer.close()
    return writer.id


def test_what_is_taken_stays_and_is_private(paths):
    id = written(paths, b"abc")
    assert file_path(paths, id).read_bytes() == b"abc"
    assert file_path(paths, id).stat().st_mode & 0o777 == 0o600 and paths.files.stat().st_mode & 0o777 == 0o700
    remove(paths, id)
    remove(paths, id)
    assert list(paths.files.iterdir()) == []


def test_what_is_not_taken_goes(paths):
    written(paths, b"abc", taken=False)
    assert list(paths.files.iterdir()) == []


def test_a_file_over_the_limit_is_refused(paths):
    writer = FileWriter(paths, new_file_id(), largest=3)
    writer.write(b"abc")
    with pytest.raises(FileTooLarge, match="split it"):
        writer.write(b"d")
    writer.close()


@pytest.mark.parametrize("id", ["", "file-", "../../etc/passwd", "file-" + "G" * 24, "file-" + "0" * 23 + "/"])
def test_only_our_ids_name_files(paths, id):
    with pytest.raises(ValueError, match="no id of a file"):
        file_path(paths, id)


def test_the_sweep_leaves_what_is_known(paths):
    kept, gone = written(paths, b"a"), written(paths, b"b")
    (paths.files / f".{new_file_id()}").write_bytes(b"half")
    sweep_files(paths, {kept})
    assert [file.name for file in paths.files.iterdir()] == [kept] != [gone]


def test_what_nobody_writes_any_more_goes(paths):
    kept, writer = written(paths, b"a"), FileWriter(paths, new_file_id())
    (paths.files / f".{new_file_id()}").write_bytes(b"half")
    sweep_partials(paths)
    assert {file.name for file in paths.files.iterdir()} == {kept, f".{writer.id}"}
    writer.close()


def test_lines_are_cut_where_they_are_too_long(tmp_path):
    file = tmp_path / "a"
    file.write_bytes(b"one\n\n  \n" + b"x" * 50 + b"\nlast")
    assert [line for _, line in lines(file, 10)] == [b"one\n", b"x" * 11, b"last"]
