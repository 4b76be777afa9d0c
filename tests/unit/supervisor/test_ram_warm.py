"""Reading files into the page cache, and leaving that."""

import threading

import pytest

from blazar.supervisor.ram_warm import PIECE, touch


def test_every_byte_is_read_until_it_is_stopped(tmp_path):
    files = [tmp_path / "one", tmp_path / "two"]
    files[0].write_bytes(bytes(PIECE + 5))
    files[1].write_bytes(bytes(7))
    stop = threading.Event()
    assert touch(files, stop) == PIECE + 12
    stop.set()
    assert touch(files, stop) == 0
    with pytest.raises(OSError):
        touch([tmp_path / "gone"], threading.Event())
