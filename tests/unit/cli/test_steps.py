"""Steps on a terminal and elsewhere."""

import io

from blazar.cli.steps import Steps


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def draw(stream, *calls):
    """What is written; each call is (seconds from the start, task, done, total)."""
    clock = Clock()
    with Steps(stream, clock) as steps:
        for at, *step in calls:
            clock.now = 100.0 + at
            steps(*step)
    return stream.getvalue()


def test_one_moving_line_for_each_task():
    said = draw(Terminal(), (0, "configure", 0, None), (1, "compile", 1, 200), (11, "compile", 100, 200),
                (11.01, "compile", 101, 200), (21, "compile", 200, 200))
    assert said == "\n\r\x1b[Kcompile  50 %, 10 s left\r\x1b[Kcompile  100 %\n"


def test_a_line_now_and_then_where_nobody_looks():
    said = draw(io.StringIO(), (0, "compile", 0, 200), (5, "compile", 50, 200), (10, "compile", 100, 200),
                (12, "compile", 120, 200), (20, "compile", 200, 200))
    assert said == "compile  50 %, 10 s left\ncompile  100 %\n"


def test_short_work_says_nothing():
    assert draw(io.StringIO(), (0, "quantize", 1, 2), (1, "quantize", 2, 2)) == ""
