import pytest

from blazar.proxy.wire.framing import BadFraming, ChunkedFraming, CloseFraming, LengthFraming
from blazar.proxy.wire.head import parse_head


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
    assert isinstance(head.framing, kind) and head.keeps is keeps


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
