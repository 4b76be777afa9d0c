"""Tables, JSON, cleaned text and the progress bar."""

import fcntl
import io
import json
import os
import struct
import termios

import pytest

from blazar.cli.output import Output, Progress, printable


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_table_is_aligned():
    out = io.StringIO()
    Output(stream=out).table(("NAME", "SIZE"), [("solo:q4_0", "1.0 KiB"), ("a", "2 B")])
    assert out.getvalue() == "NAME       SIZE\nsolo:q4_0  1.0 KiB\na          2 B\n"


def test_json_prints_the_rows_as_objects_or_what_was_given():
    out = io.StringIO()
    Output(as_json=True, stream=out).table(("NAME", "IN USE"), [("solo", "no")])
    assert json.loads(out.getvalue()) == [{"name": "solo", "in_use": "no"}]
    out = io.StringIO()
    Output(as_json=True, stream=out).table(("NAME",), [("solo",)], {"models": ["ü"]})
    assert '"ü"' in out.getvalue() and json.loads(out.getvalue()) == {"models": ["ü"]}


def test_an_empty_table_still_has_its_head_or_is_an_empty_list():
    out = io.StringIO()
    Output(stream=out).table(("NAME", "SIZE"), [])
    assert out.getvalue() == "NAME  SIZE\n"
    out = io.StringIO()
    Output(as_json=True, stream=out).table(("NAME", "SIZE"), [], [])
    assert json.loads(out.getvalue()) == []


@pytest.mark.parametrize(("given", "shown"), [("a\x1b[31mb", "a[31mb"), ("tab\tand\nline", "tab\tand\nline"),
                                              ("\x9b2J\x07\x7f\r", "2J"), ("héllo 👩🏼", "héllo 👩🏼")])
def test_control_characters_never_reach_a_terminal(given, shown):
    assert printable(given) == shown
    out = Terminal()
    Output(stream=out).text(given)
    assert out.getvalue() == shown


def test_a_pipe_gets_every_byte():
    out = io.StringIO()
    Output(stream=out).text("a\x1b[31mb\r")
    assert out.getvalue() == "a\x1b[31mb\r"


def test_a_cell_stays_on_its_line_and_is_cleaned_even_in_a_pipe():
    out = io.StringIO()
    Output(stream=out).table(("A", "B"), [("x\ny\x1b", "z")])
    assert out.getvalue() == "A    B\nx y  z\n"


def bar(*steps, terminal=True):
    """What a Progress writes for steps of (seconds passed, stage, done, total), without the control codes."""
    now = [0.0]
    out = Terminal() if terminal else io.StringIO()
    with Progress(out, clock=lambda: now[0]) as progress:
        for passed, stage, done, total in steps:
            now[0] += passed
            progress(stage, done, total)
    return out.getvalue().replace("\r\x1b[K", "|")


def test_the_bar_shows_share_rate_and_time_left():
    shown = bar((1, "download", 0, 400), (2, "download", 100, 400))
    assert shown == ("|download  [........................]   0 %  0 B of 400 B"
                     "|download  [######..................]  25 %  100 B of 400 B  50 B/s  6 s left\n")


def test_a_resumed_download_counts_its_rate_from_where_it_began():
    shown = bar((1, "download", 200, 400), (2, "download", 300, 400))
    assert shown.endswith("75 %  300 B of 400 B  50 B/s  2 s left\n")


def test_the_bar_is_drawn_at_most_ten_times_a_second_but_always_at_the_end():
    shown = bar((1, "hash", 0, 100), (0.05, "hash", 10, 100), (0.04, "hash", 50, 100), (0.001, "hash", 100, 100))
    assert shown.count("|") == 2 and "100 %" in shown


def test_a_new_stage_begins_a_new_line():
    shown = bar((1, "download", 5, 10), (1, "verify", 1, 10))
    assert [line.partition("  ")[0] for line in shown.splitlines()] == ["|download", "|verify"]


def test_an_unknown_total_has_no_bar():
    assert bar((1, "unpack", 0, 0), (2, "unpack", 2048, 0)).endswith("|unpack  2.0 KiB  1.0 KiB/s\n")


def test_without_a_terminal_what_is_quick_leaves_no_line():
    assert bar((1, "download", 5, 10), (3, "download", 10, 10), (0, "verify", 10, 10), terminal=False) == ""


def test_without_a_terminal_there_is_a_plain_line_after_ten_percent_and_five_seconds():
    shown = bar((1, "download", 100, 1000), *[(1, "download", done, 1000) for done in range(120, 401, 20)],
                terminal=False)
    assert shown.splitlines() == ["download  20 %  200 B of 1000 B  20 B/s  40 s left",
                                  "download  30 %  300 B of 1000 B  20 B/s  35 s left",
                                  "download  40 %  400 B of 1000 B  20 B/s  30 s left"]


def test_without_a_terminal_a_slow_download_shows_once_a_minute_that_it_lives():
    shown = bar((1, "download", 0, 1000), *[(1, "download", second, 100_000) for second in range(1, 130)],
                terminal=False)
    assert shown.count("\n") == 2


def test_with_json_there_is_no_progress_even_on_a_terminal():
    terminal = Terminal()
    with Output(as_json=True, errors=terminal).progress() as progress:
        progress("download", 5, 10)
    assert terminal.getvalue() == ""


def test_a_download_that_begins_anew_counts_its_rate_anew():
    shown = bar((1, "download", 300, 400), (1, "download", 0, 400), (2, "download", 100, 400))
    assert shown.endswith("25 %  100 B of 400 B  50 B/s  6 s left\n")


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_the_bar_never_wraps(columns):
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    now = [0.0]
    with os.fdopen(theirs, "w") as terminal:
        with Progress(terminal, clock=lambda: now[0]) as progress:
            for done in (0, 49_000_000):
                now[0] += 4
                progress("download", done, 92_871_040)
        shown = ""
        while "\n" not in shown:
            shown += os.read(ours, 4096).decode()
    os.close(ours)
    lines = shown.rstrip().split("\r\x1b[K")[1:]
    assert len(lines) == 2
    assert max(map(len, lines)) < columns
    assert lines[1].startswith("download  [")
    assert ("left" in lines[1]) == (columns >= 80)
