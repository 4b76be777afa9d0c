import pytest

from blazar.proxy.wire.framing import BadFraming, ChunkedFraming, CloseFraming, LengthFraming
from blazar.proxy.wire.head import KEPT_IDLE, MOST_KNOWN, HeadReader, parse_head


@pytest.mark.parametrize(("lines", "kind", "keeps"), [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5", LengthFraming, True),
    (b"HTTP/1.1 200\r\nTransfer-Encoding: Chunked", ChunkedFraming, True),
    (b"HTTP/1.1 200 OK\r\nConnection: close", CloseFraming, False),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 1", LengthFraming, False),
    (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: Keep-Alive", LengthFraming, True),
    (b"HTTP/1.1 204 No Content", LengthFraming, True),
    (b"HTTP/1.1 100 Continue", LengthFraming, True),
])
def test_framing_and_reuse(lines, kind, keeps):
    head = parse_head(lines)
    assert isinstance(head.framing(), kind) and head.keeps is keeps


def test_fields_are_lower_case_and_stripped():
    head = parse_head(b"HTTP/1.1 404 Not Found\r\nContent-TYPE: \t text/event-stream \r\n"
                      b"X: a\r\nX: b\r\nContent-Length: 2")
    assert head.status == 404 and head.length == 2 and not head.chunked
    assert head.fields["content-type"] == "text/event-stream" and head.fields["x"] == "a, b"


@pytest.mark.parametrize("lines", [
    b"", b"HTTP/2 200 OK", b"HTTP/1.1 20 OK", b"HTTP/1.1 2000 OK", b"garbage",
    b"HTTP/1.1 200 OK\r\nContent-Length: +5", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1_0", b"HTTP/1.1 200 OK\r\nContent-Length: \xb2",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked",
    b"HTTP/1.1 200 OK\r\nContent-Type: a\r\n folded", b"HTTP/1.1 200 OK\r\nBad Name: a", b"HTTP/1.1 200 OK\r\nName : a",
    b"HTTP/1.1 200 OK\r\nContent-Type: a\rb", b"HTTP/1.1 200 OK\r\nContent-Type: a\nb", b"HTTP/1.1 200 OK\r\nno colon",
])
def test_irregular_heads_are_refused(lines):
    with pytest.raises(BadFraming):
        parse_head(lines)


# -- heads like one before: known only when nothing but the length differs ---------------------------------

END = b"\r\n\r\n"
KNOWN = b"HTTP/1.1 200 OK\r\nContent-Length: %b\r\nX: 1" + END


@pytest.mark.parametrize(("first", "kind"), [
    (b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 5", LengthFraming),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", ChunkedFraming),
    (b"HTTP/1.1 200 OK\r\nConnection: close", CloseFraming),
])
def test_each_answer_has_its_own_framing(first, kind):
    reader = HeadReader()
    one, _ = reader.read(first + END)
    two, rest = reader.read(first.replace(b": 5", b": 12") + END + b"abc")
    assert (two.status, two.keeps, type(two.framing()), rest) == (one.status, one.keeps, kind, b"abc")
    assert two.length == (12 if kind is LengthFraming else None)
    assert one.framing() is not one.framing() and reader.read(first + END)[0].length == one.length


@pytest.mark.parametrize("digits", [b"1234567890123456", b"", b"+7", b"7, 7", b"7\r\nContent-Length: 8", b"\xb2",
                                    b"0x1", b"1_0", b"-1"])
def test_other_digits_are_read_as_any_head_is(digits):
    reader, raw = HeadReader(), KNOWN % digits
    reader.read(KNOWN % b"10")
    with pytest.raises(BadFraming):
        parse_head(raw.removesuffix(END))
    with pytest.raises(BadFraming):
        reader.read(raw)


@pytest.mark.parametrize("raw", [KNOWN % b"7", KNOWN % b"007", KNOWN % b"999999999999999", KNOWN % b"7 ",
                                 (KNOWN % b"7").replace(b"X: 1", b"X: 2"), (KNOWN % b"7").replace(b"200 OK", b"404 No"),
                                 (KNOWN % b"7").replace(b"X: 1", b"X: 1\r\nTransfer-Encoding: gzip")])
def test_what_is_known_says_the_same_as_reading_it(raw):
    reader = HeadReader()
    reader.read(KNOWN % b"10")
    try:
        fresh = parse_head(raw.removesuffix(END))
    except BadFraming:
        with pytest.raises(BadFraming):
            reader.read(raw + b"body")
        return
    head, rest = reader.read(raw + b"body")
    assert (told(head), rest) == (told(fresh), b"body")


def told(head):
    return head.status, head.fields, head.keeps, head.chunked, head.length, head.kind, head.streams, head.answers


@pytest.mark.parametrize("cut", range(1, len(KNOWN % b"10")))
def test_a_head_that_is_not_whole_is_waited_for(cut):
    reader = HeadReader()
    reader.read(KNOWN % b"10")
    assert reader.read((KNOWN % b"10")[:cut]) is None


def test_answers_of_several_kinds_are_known_and_not_without_end():
    reader = HeadReader()
    for number in range(3 * MOST_KNOWN):
        head, _ = reader.read(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX: %d" % number + END)
    again, _ = reader.read(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nX: %d" % number + END)
    assert again is head
    assert len(reader._known) == MOST_KNOWN


def test_what_has_no_body_is_read_anew():
    reader = HeadReader()
    for length in (5, 7):
        assert reader.read(b"HTTP/1.1 204 No Content\r\nContent-Length: %d" % length + END)[0].framing().ended


@pytest.mark.parametrize(("told", "kept"), [
    ("timeout=5, max=100", 4), ("max=100, timeout=10", 9), ("Timeout = 3", 2), ("timeout=1", 0.5), ("timeout=0", 0),
    ("timeout=900", KEPT_IDLE), ("max=100", KEPT_IDLE), ("xtimeout=5", KEPT_IDLE), ("timeout=soon", KEPT_IDLE),
    ("timeout=" + "9" * 40, KEPT_IDLE)])
def test_a_connection_is_kept_for_less_than_the_child_says(told, kept):
    assert parse_head(f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: {told}".encode()).kept == kept
    assert parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: 2").kept == KEPT_IDLE
