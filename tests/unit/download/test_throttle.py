import pytest

from blazar.download.throttle import MEGABYTE, Bucket, bucket_of


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.now += seconds


@pytest.mark.parametrize("block", [1, 10, 64, 1000, 5000])
def test_the_rate_holds_after_a_burst_of_a_second(block):
    clock = Clock()
    bucket = Bucket(1000, clock)
    for _ in range(20_000 // block):
        bucket.take(block, clock.wait)
    assert clock.now - 100 == pytest.approx(20_000 // block * block / 1000 - 1)


def test_a_pause_earns_one_second_at_most():
    clock = Clock()
    bucket = Bucket(1000, clock)
    bucket.take(1000, clock.wait)
    assert clock.now == 100
    clock.now = 5000.0
    bucket.take(1000, clock.wait)
    assert clock.now == 5000
    bucket.take(500, clock.wait)
    assert clock.now == 5000.5


def test_many_lanes_together_get_no_more_than_one():
    """Lanes that all take before any of them has waited: the last one is through when the rate allows it."""
    clock, waits = Clock(), []
    bucket = Bucket(1000, clock)
    for _ in range(8):
        bucket.take(1000, waits.append)
    assert waits == [1, 2, 3, 4, 5, 6, 7]


def test_no_limit_never_waits():
    Bucket(0).take(10**12, lambda seconds: pytest.fail("waited"))


def test_the_setting_is_in_mb_a_second_and_zero_is_no_limit():
    assert bucket_of(3).rate == 3 * MEGABYTE
    assert bucket_of(0) is None
    assert bucket_of(-1) is None
