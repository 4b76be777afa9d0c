"""Random schedules of arrival, stall and close leave nothing behind; tools/schedules.py tries as many as one likes."""

import gevent

from tests.support.schedules import Course


def test_nothing_is_left_behind(tmp_path):
    course = Course(tmp_path)
    try:
        for number in range(20):
            course.play(number)
        before = course.held()
        for number in range(20, 220):
            course.play(number)
            assert not course.left(), number
        descriptors, greenlets = course.held()
        assert descriptors == before[0]
        assert greenlets <= before[1], "fewer where greenlets of other tests have gone"
        assert course.lines > 220, "of requests that came as far as to be counted"
    finally:
        course.close()
    gevent.sleep(0)
