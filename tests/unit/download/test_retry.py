import pytest

from blazar.download.retry import Patience, retry_after


@pytest.mark.parametrize(("value", "seconds"), [
    (None, None), ("7", 7), (" 0 ", 0), ("Sun, 06 Nov 1994 08:49:37 GMT", 37), ("Sun, 06 Nov 1994 08:48:00 GMT", 0),
    ("soon", None), ("-5", None), ("1.5", None), ("9" * 400, None), ("", None),
    ("Sun, 06 Nov 99999 08:49:37 GMT", None)])
def test_retry_after(value, seconds):
    assert retry_after(value, now=lambda: 784111740.0) == seconds


def test_failures_in_a_row_are_counted_and_a_byte_forgives_them():
    naps = []
    patience = Patience(naps.append, delays=(1, 2))
    assert [patience.again(at_once=False) for _ in range(3)] == [True, True, False]
    patience.came()
    assert patience.again(at_once=False)
    assert patience.again(at_once=True)
    assert naps == [1, 2, 1]


def test_pauses_that_are_asked_for_have_an_end():
    naps = []
    patience = Patience(naps.append)
    assert not patience.pause(61)
    assert [patience.pause(60) for _ in range(4)] == [True, True, True, False]
    assert naps == [60, 60, 60]
