"""Logs read while they are written and rotated, with real files."""

import logging

import pytest

from blazar.telemetry.log import FORM, rotating
from blazar.telemetry.reading import LONGEST_LINE, AtLeast, Log

MIXED = b"""\
2026-01-02 03:04:05,678 INFO blazar.x: one
2026-01-02 03:04:05,678 ERROR blazar.x: two
its second line
WARNING blazar.x: three
[2026-01-02 03:04:05 +0000] [12] [INFO] four
[2026-01-02 03:04:05 +0000] [12] [CRITICAL] five
"""


@pytest.fixture
def file(tmp_path):
    return tmp_path / "daemon.log"


def test_last_lines_come_out_of_both_parts(file):
    file.with_name("daemon.log.1").write_text("a\nb\nc\n")
    assert Log(file).last(2) == [b"b", b"c"]
    file.write_text("d\ne")
    log = Log(file)
    assert log.last(3) == [b"b", b"c", b"d"]  # the last one may not be written to its end yet
    assert Log(file).last(0) == [] and Log(file.with_name("none")).last(5) == []


@pytest.mark.parametrize(("level", "kept"), [
    ("debug", [0, 1, 2, 3, 4, 5]), ("info", [0, 1, 2, 3, 4, 5]), ("warn", [1, 2, 3, 5]), ("error", [1, 2, 5])])
def test_levels(file, level, kept):
    file.write_bytes(MIXED)
    lines = MIXED.splitlines()
    assert Log(file, AtLeast(level)).last(9) == [lines[place] for place in kept]
    assert Log(file, AtLeast("error")).last(2) == [b"its second line", lines[5]]


def follow(log, *steps):
    """The lines that come when, instead of each pause, the next step is taken."""
    class Done(Exception):
        pass
    left, lines = list(steps), []

    def pause():
        if not left:
            raise Done
        left.pop(0)()
    try:
        lines += log.last(9)
        for line in log.follow(pause):
            lines.append(line)
    except Done:
        return lines


def add(file, text):
    with file.open("a") as stream:
        stream.write(text)


def move(file):
    file.replace(file.with_name(file.name + ".1"))


def test_lines_are_followed_over_a_rotation(file):
    file.write_text("a\n")
    assert follow(Log(file), lambda: add(file, "b\nc"), lambda: add(file, "d\n"),
                  lambda: (add(file, "e\nf"), move(file)), lambda: add(file, "g\n"), lambda: None,
                  lambda: (add(file, "h\n"), move(file), add(file, "i\n"))) == [
        b"a", b"b", b"cd", b"e", b"f", b"g", b"h", b"i"]


def test_a_log_that_comes_later_or_is_cut(file):
    assert follow(Log(file), lambda: None, lambda: add(file, "a\nb\nc\n"), lambda: (file.write_text("")),
                  lambda: add(file, "d\n")) == [b"a", b"b", b"c", b"d"]


def test_a_line_without_an_end_is_not_kept_for_ever(file):
    file.write_bytes(b"x" * (3 * LONGEST_LINE) + b"\n")
    assert 3 <= len(lines := Log(file).last(9)) <= 4 and sum(map(len, lines)) == 3 * LONGEST_LINE


def test_our_own_log_is_followed_over_its_rotation(file):
    handler = rotating(file)
    handler.maxBytes = 3000
    handler.setFormatter(logging.Formatter(FORM))

    def write(numbers):
        for number in numbers:
            handler.emit(logging.LogRecord("x", logging.INFO, "", 1, "message %d", (number,), None))
    lines = follow(Log(file), *(lambda begin=begin: write(range(begin, begin + 20)) for begin in range(0, 200, 20)))
    handler.close()
    assert [int(line.rpartition(b" ")[2]) for line in lines] == list(range(200))
    assert file.with_name("daemon.log.1").exists()
