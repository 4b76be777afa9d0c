"""The strict check of a client's head."""

import pytest

from blazar.errors import ExpectationRefused, HeadRefused, HeadTooLarge
from blazar.proxy.wire.framing import ChunkedFraming, LengthFraming
from blazar.proxy.wire.request_head import authority_of, check_head, glance, receive_head
from tests.support.corpus import cases

GET = b"GET /v1/models HTTP/1.1\r\nHost: localhost"
POST = b"POST /api/chat HTTP/1.1\r\nHost: localhost:11435"


def test_a_plain_head():
    head = check_head(POST + b"\r\nX-Two:  b \t\r\nEmpty:\r\nContent-Length: 5\r\nnon-ascii: \xe9")
    assert (head.method, head.target, head.old) == ("POST", "/api/chat", False)
    assert head.fields == (("host", "localhost:11435"), ("x-two", "b"), ("empty", ""), ("content-length", "5"),
                           ("non-ascii", "\xe9"))
    framing = head.framing()
    assert isinstance(framing, LengthFraming) and framing.left == 5


@pytest.mark.parametrize("coding", [b"chunked", b"Chunked"])
def test_a_chunked_head(coding):
    assert isinstance(check_head(POST + b"\r\nTransfer-Encoding: " + coding).framing(), ChunkedFraming)


def test_without_either_there_is_no_body():
    assert check_head(GET).framing().ended


@pytest.mark.parametrize("raw", [
    b"GET / HTTP/1.0", b"GET / HTTP/1.0\r\nHost: x", b"OPTIONS * HTTP/1.1\r\nHost: x",
    b"GET http://evil.example/v1/models HTTP/1.1\r\nHost: x", b"GET /a?b=http://c HTTP/1.1\r\nHost: [::1]:80",
    GET + b"\r\nExpect: 100-Continue", GET + b"\r\nX: " + b"y" * 7900, b"GET / HTTP/1.1\r\nHost:",
    GET + b"\r\nX: y" * 99, b"GET / HTTP/1.1\r\nHost: a_b.c-d:"])
def test_good_heads(raw):
    check_head(raw)


@pytest.mark.parametrize("raw", [
    # the first line
    b"", b"GET /", b"get / HTTP/1.1", b"GET  / HTTP/1.1", b"GET / HTTP/1.1 ", b"GET /a b HTTP/1.1", b"GET / HTTP/1.2",
    b"GET / HTTP/2.0", b"PRI * HTTP/2.0", b"GET / http/1.1", b"GET / HTTP/01.1", b"G@T / HTTP/1.1", b"GE / HTTP/1.1",
    b"GET\t/ HTTP/1.1", b"GET /\x00 HTTP/1.1", b"GET /\xe9 HTTP/1.1", b"GET * HTTP/1.1", b"GET v1/models HTTP/1.1",
    b"CONNECT a:1 HTTP/1.1", b"GET ftp://a/ HTTP/1.1", b"GET http:///x HTTP/1.1", b"GET http://u@h/ HTTP/1.1",
    b"GET /a#b HTTP/1.1", b"GET http://a\\b/ HTTP/1.1"])
def test_bad_first_lines(raw):
    with pytest.raises(HeadRefused):
        check_head(raw + b"\r\nHost: localhost")


@pytest.mark.parametrize("line", [
    b" folded", b"\tfolded", b"No colon", b": nameless", b"Name : x", b"N\x00: x", b"N: \x00", b"N: a\nM: b",
    b"N: a\rM: b", b"N: \x7f", b"N\xe9: a", b"(N): a", b"",
    b"Host: other", b"Content-Type: a\r\nContent-Type: b", b"Expect: 100-continue\r\nExpect: 100-continue",
    b"Content-Length: +5", b"Content-Length: -1", b"Content-Length: 1_0", b"Content-Length: 0x5", b"Content-Length:",
    b"Content-Length: 5, 5", b"Content-Length: 5\r\nContent-Length: 5", b"Content-Length: 5\r\nContent-Length: 6",
    b"Content-Length: \xb2", b"Content-Length: 9999999999999999", b"Content-Length: 5\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: identity", b"Transfer-Encoding:", b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding: \x0bchunked"])
def test_bad_fields(line):
    with pytest.raises(HeadRefused) as refused:
        check_head(GET + b"\r\n" + line)
    assert refused.value.status == 400


@pytest.mark.parametrize("host", [b"", b"\r\nHost: a b", b"\r\nHost: a/b", b"\r\nHost: a:b", b"\r\nHost: u@a",
                                  b"\r\nHost: [::1", b"\r\nHost: \xe9", b"\r\nHost: a,b", b"\r\nHost: 127.0.0.1%a"])
def test_bad_hosts(host):
    with pytest.raises(HeadRefused):
        check_head(b"GET / HTTP/1.1" + host)


def test_chunks_are_not_for_http_1_0():
    with pytest.raises(HeadRefused):
        check_head(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked")


@pytest.mark.parametrize("raw", [GET + b"\r\nX: y" * 100, GET + b"\r\nX: " + b"y" * 8000,
                                 b"GET /" + b"a" * 8000 + b" HTTP/1.1\r\nHost: a", GET + b"\r\nX: yyyy" * 8000])
def test_large_heads(raw):
    with pytest.raises(HeadTooLarge) as refused:
        check_head(raw)
    assert refused.value.status == 431


def test_other_expectations():
    with pytest.raises(ExpectationRefused, match="200-maybe"):
        check_head(GET + b"\r\nExpect: 200-maybe")


def received(data, size):
    pieces = [data[start:start + size] for start in range(0, len(data), size)]
    return receive_head(pieces.pop(0), lambda: pieces.pop(0)), b"".join(pieces)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("before", [b"", b"\r\n", b"\r\n\r\n\r\n"])
def test_a_head_in_pieces(size, before):
    (raw, rest), later = received(before + POST + b"\r\nContent-Length: 4\r\n\r\nbody", size)
    assert raw == POST + b"\r\nContent-Length: 4" and rest + later == b"body"


@pytest.mark.parametrize("size", [1, 2, 1000])
@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\nHost: a\n\n", b"GET / HTTP/1.1\r\nHost: a\n", b"GET /\0", b"G\rX",
                                  b"\x16\x03\x01\x02", b"{", b"\n", b"\r\r", b" GET", b"get /"])
def test_what_can_become_no_head_is_refused_without_waiting_for_more(data, size):
    with pytest.raises(HeadRefused):
        received(data, size)


def test_an_endless_head_is_refused():
    with pytest.raises(HeadTooLarge):
        receive_head(b"GET / HTTP/1.1\r\n", lambda: b"a" * 1000)
    with pytest.raises(HeadTooLarge):
        receive_head(b"\r\n", lambda: b"\r\n" * 500)


@pytest.mark.parametrize(("target", "authority"), [
    ("/", ""), ("*", ""), ("/x?u=http://a/", ""), ("http://a", "a"), ("HTTP://A:1/x", "A:1"), ("http://a?b", "a"),
    ("http://[::1]:80/x", "[::1]:80")])
def test_authority_of(target, authority):
    assert authority_of(target) == authority


@pytest.mark.parametrize(("began", "seen"), [
    (b"POST /api/chat HTTP/1.1", ("POST", "/api/chat")), (b"HEAD http://a/v1?x y", ("HEAD", "/v1")),
    (b"GET /api/tags\r\n", ("GET", "/api/tags")), (b"junk", ("", "")), (b"", ("", ""))])
def test_glance(began, seen):
    assert glance(began) == seen


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_no_cut_changes_what_is_read(case):
    """Every request of the corpus, cut in two at every byte: the same head and rest, or the same kind of refusal."""
    whole = read(case.data, len(case.data))
    for cut in range(1, min(len(case.data), 2000)):
        assert read(case.data, cut) == whole, cut


def read(data, cut):
    pieces = iter([data[cut:]])
    try:
        raw, rest = receive_head(data[:cut], lambda: next(pieces))
        return check_head(raw), rest + b"".join(pieces)
    except (HeadRefused, StopIteration) as outcome:
        return type(outcome)
