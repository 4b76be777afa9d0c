"""When memory is given back, and what of it: cycles that nobody refers to, and what the C library keeps."""

import gc
import subprocess
import sys
import weakref

import pytest

from blazar.proxy.tidying import QUIET, Tidying

PIECE = 1000
"""Bytes: too large for Python's own small blocks, too small to be a mapping of its own."""
FREED_MIB = 20
AFTER_A_BUSY_TIME = f"""
from pathlib import Path
from blazar.proxy.tidying import QUIET, Tidying

def held():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines()
                if line.startswith("VmRSS:")) // 1024

tidying = Tidying()
tidying.look(QUIET + 1, 0.0)
pieces = [bytes({PIECE}) for _ in range({FREED_MIB << 20} // {PIECE})]
kept = pieces[::1000]
before = held()
pieces = None
freed = held()
tidying.look(QUIET + 3, 2.0)
print(before - freed, before - held())
"""


class Circle:
    def __init__(self) -> None:
        self.own = self


@pytest.fixture
def circle():
    """Refers to itself, and is no older than the last look for such."""
    gc.collect()
    gc.disable()
    try:
        yield weakref.ref(Circle())
    finally:
        gc.enable()


def test_once_after_each_busy_time():
    calls: list[float] = []
    tidying = Tidying(lambda: calls.append(now))
    first, second = 0.5, QUIET + 3.5
    seen = [(0.0, None), (1.0, first), (first + QUIET, first), (first + QUIET + 1, first), (first + QUIET + 2, first),
            (second, None), (second + 1, second), (second + QUIET + 2, second), (second + 9 * QUIET, second)]
    for now, last_use in seen:
        tidying.look(now, last_use)
    assert calls == [first + QUIET + 1, second + QUIET + 2]


def test_what_refers_to_itself_goes(circle):
    assert circle() is not None
    tidying = Tidying(lambda: None)
    tidying.look(QUIET, 0.0)
    assert circle() is not None
    tidying.look(QUIET + 0.1, 0.0)
    assert circle() is None


def test_free_memory_between_what_stays_is_given_back():
    ran = subprocess.run([sys.executable, "-c", AFTER_A_BUSY_TIME], capture_output=True, text=True, check=True)
    freed, given_back = map(int, ran.stdout.split())
    assert freed < FREED_MIB / 4, "it is given back without us"
    assert given_back > FREED_MIB * 3 / 4


def test_where_the_c_library_has_no_such_call(monkeypatch):
    monkeypatch.setitem(sys.modules, "ctypes", None)
    tidying = Tidying()
    tidying.look(QUIET + 1, 0.0)
    tidying.look(QUIET + 3, 2.0)
