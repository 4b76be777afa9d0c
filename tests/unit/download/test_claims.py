from blazar.download.claims import Claims
from blazar.download.spans import Spans


def taken(claims, done, size, segment):
    claim = claims.take(Spans(done), size, segment)
    return claim and (claim.start, claim.end)


def test_parts_are_taken_in_order_and_once():
    claims = Claims(8)
    assert [taken(claims, [], 100, 40) for _ in range(4)] == [(0, 40), (40, 80), (80, 100), None]


def test_what_is_there_is_left_out():
    claims = Claims(8)
    assert [taken(claims, [(0, 10), (30, 95)], 100, 15) for _ in range(4)] == [(10, 25), (25, 30), (95, 100), None]


def test_of_a_file_of_unknown_size_the_rest_is_one_part():
    claims = Claims(1)
    assert [taken(claims, [(0, 10)], None, None) for _ in range(2)] == [(10, None), None]


def test_what_a_lane_leaves_goes_to_the_next_as_far_as_it_has_not_come():
    claims = Claims(8)
    claims.lanes = 2
    claim = claims.take(Spans(), 100, 50)
    claim.start = 20
    assert claims.leave(claim, for_good=True)
    assert (claims.lanes, claims.wanted) == (1, 1)
    assert taken(claims, [(0, 20)], 100, 50) == (20, 70)


def test_the_last_lane_stays():
    claims = Claims(8)
    claims.lanes = 1
    claim = claims.take(Spans(), 100, None)
    assert not claims.leave(claim, for_good=False)
    assert taken(claims, [], 100, None) is None
    claims.finish(claim)
    assert taken(claims, [], 100, None) == (0, 100)
