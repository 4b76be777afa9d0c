import itertools
import random

import pytest

from blazar.download.spans import Spans


@pytest.mark.parametrize("seed", range(300))
def test_spans_are_the_set_of_their_bytes(seed):
    chance = random.Random(seed)
    pairs = [sorted(chance.choices(range(60), k=2)) for _ in range(chance.randrange(12))]
    limit = chance.randrange(60)
    spans = Spans((start, end) for start, end in pairs)
    there = {place for start, end in pairs for place in range(start, end)}
    listed = list(spans)
    assert {place for start, end in listed for place in range(start, end)} == there
    assert spans.total == len(there)
    assert spans.end == max(there, default=-1) + 1
    assert spans.frontier == next(place for place in range(62) if place not in there)
    assert all(left[1] < right[0] for left, right in itertools.pairwise(listed))
    assert {place for start, end in spans.clip(limit) for place in range(start, end)} == {
        place for place in there if place < limit}
    start, end = spans.gap()
    assert start == spans.frontier
    assert end == min((place for place in there if place > start), default=None)


@pytest.mark.parametrize("raw", [None, {}, "x", [1], [[1]], [[1, 2, 3]], [[2, 1]], [[3, 3]], [[-1, 2]], [["0", 2]],
                                 [[0, 2.0]], [[False, True]]])
def test_what_are_no_spans(raw):
    with pytest.raises(ValueError, match="not a"):
        Spans.read(raw)


def test_spans_of_json():
    assert list(Spans.read([[5, 9], [0, 5]])) == [(0, 9)]
