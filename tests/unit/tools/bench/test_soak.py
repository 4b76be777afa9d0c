"""What the long run makes of its points."""

import pytest

from tools.bench.soak import Point, growth, slices


@pytest.mark.parametrize(("count", "parts"), [(0, []), (7, [7]), (10, [10]), (25, [10, 10, 5])])
def test_slices_are_all_of_it(count, parts):
    assert slices(count, 10) == parts


def test_growth_is_from_the_first_point_to_the_last():
    points = [Point(10, 0, 20.0, 15.0, 11), Point(100, 0, 30.0, 15.0, 11), Point(100, 5, 21.0, 15.0, 11)]
    assert growth(points) == pytest.approx(5.0)
