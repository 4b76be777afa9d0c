"""A short soak, over Unix sockets as most other tests with the real engine are not; tools/soak.py has longer ones."""

import re

import pytest

from tests.support.soak.course import Course


@pytest.mark.slow
def test_nothing_is_lost_or_left(tmp_path):
    with Course(tmp_path, "unix", seed=7) as course:
        course.run(6.0)
    told = "\n".join(course.figures())
    assert course.wrong == [], told
    assert int(re.match(r"\d+", told)[0]) > 10 and course.made.done, told
