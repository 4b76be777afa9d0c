"""Heads like the one before: known only when nothing but the length differs."""

import pytest

from blazar.errors import BlazarError
from blazar.proxy.wire.familiar import LONGEST, Heads, familiar
from blazar.proxy.wire.request_head import check_head

HEAD = b"POST /a HTTP/1.1\r\nHost: b\r\nContent-Length: %b\r\nX: 1"


def test_only_the_length_differs():
    assert familiar(HEAD % b"10", "known").length(HEAD % b"7") == 7
    assert familiar(HEAD % b"10", "known").known == "known"
    assert familiar(HEAD % b"10", "").length(HEAD % b"123456789012345") == 123456789012345


@pytest.mark.parametrize("raw", [
    HEAD % b"1234567890123456", HEAD % b"", HEAD % b"+7", HEAD % b"7 ", HEAD % b"7, 7",
    HEAD % b"7\r\nContent-Length: 7",
    HEAD % b"\xb2", (HEAD % b"7").replace(b"X: 1", b"X: 2"), (HEAD % b"7").replace(b"/a", b"/b"),
    HEAD % b"7" + b"\r\nY: 1",
    b"", b"POST /a HTTP/1.1\r\nHost: b\r\nContent-Length: ", b"X: 1",
])
def test_anything_else_is_another_head(raw):
    assert familiar(HEAD % b"10", "").length(raw) is None


def test_a_head_whose_two_ends_overlap():
    known = familiar(b"A\r\nContent-Length: 1\r\nContent-", "")
    assert known.length(b"A\r\nContent-Length: \r\nContent-") is None
    assert known.length(b"A\r\nContent-") is None
    assert familiar(b"A\r\nContent-Length: 1 ", "").length(b"A\r\nContent-Length: ") is None


def test_a_head_without_a_length():
    head = b"GET / HTTP/1.1\r\nHost: a"
    assert familiar(head, "").length(head) == 0
    assert familiar(head, "").length(head + b"\r\nContent-Length: 5") is None


def test_what_is_known_was_passed_by_the_check():
    """Whatever digits stand there: the check of a whole head says the same of it."""
    known = familiar(HEAD % b"10", "")
    for digits in (b"0", b"007", b"999999999999999", b"9999999999999999", b"1_0", b"0x1", b"-1", b"1\t", b"\t1"):
        length = known.length(HEAD % digits)
        if length is not None:
            assert int(check_head(HEAD % digits).field("content-length")) == length
    with pytest.raises(BlazarError):
        check_head(HEAD % b"9999999999999999")


def test_a_long_head_is_not_kept():
    assert familiar(HEAD % b"1" + b"a" * LONGEST, "") is None


def test_heads_of_all_connections():
    heads = Heads(most=2)
    assert heads.find(HEAD % b"10") is None
    assert heads.keep(HEAD % b"10", "a").length(HEAD % b"10") == 10
    found = heads.find(HEAD % b"7")
    assert found is not None and (found.known, found.length(HEAD % b"7")) == ("a", 7)
    assert heads.find((HEAD % b"7").replace(b"X: 1", b"X: 2")) is None


@pytest.mark.parametrize("digits", [
    b"1234567890123456", b"", b"+7", b"7 ", b"7, 7", b"7\r\nContent-Length: 7", b"\xb2"])
def test_a_length_that_would_be_refused_is_not_known(digits):
    heads = Heads()
    heads.keep(HEAD % b"10", "a")
    assert heads.find(HEAD % digits) is None


def test_the_head_that_was_not_met_for_longest_is_forgotten():
    heads = Heads(most=2)
    one, two, three = (b"GET /%d HTTP/1.1\r\nHost: a" % number for number in range(3))
    heads.keep(one, 1)
    heads.keep(two, 2)
    assert heads.find(one).known == 1
    heads.keep(three, 3)
    assert heads.find(two) is None
    assert (heads.find(one).known, heads.find(three).known) == (1, 3)


def test_long_heads_fill_no_memory():
    heads, long = Heads(), HEAD % b"1" + b"a" * LONGEST
    assert heads.keep(long, "a").length(long) == 1
    assert heads.find(long) is None
