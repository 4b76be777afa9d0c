"""FC-01, FC-02: the event stream reader against the WHATWG rules, however the bytes are cut."""

import pytest

from blazar.errors import ChildFailed
from blazar.proxy.sse import SseReader
from tests.support.wire import cut

PLAIN = b'data: {"n":1}\n\ndata: {"n":2}\n\ndata: [DONE]\n\n'
WANTED = ['{"n":1}', '{"n":2}', "[DONE]"]


def read(*pieces):
    reader = SseReader()
    found = [payload for piece in pieces for payload in reader.feed(piece)]
    return found + reader.finish()


@pytest.mark.parametrize("data", [
    PLAIN,
    PLAIN.replace(b"\n", b"\r\n"),
    PLAIN.replace(b"\n", b"\r"),
    PLAIN.replace(b"data: ", b"data:"),
    PLAIN.replace(b"data: ", b"event: x\nid: 7\nretry: 10\ndata: "),
    PLAIN.replace(b"\n\n", b"\n\n:\n\n: ping\n\n"),
    b"\xef\xbb\xbf" + PLAIN,
    PLAIN[:-1],
    PLAIN[:-2],
], ids=["lf", "crlf", "cr", "no space", "other fields", "comments", "bom", "no blank line", "no line end"])
@pytest.mark.parametrize("seed", range(5))
def test_every_encoding_and_cutting_gives_the_same_events(data, seed):
    assert read(*cut(data, seed)) == WANTED
    assert read(data) == WANTED


def test_crlf_cut_between_its_two_bytes():
    assert read(*[piece + b"\r" for piece in PLAIN.replace(b"\n", b"\r\n").split(b"\r")]) == WANTED


def test_an_lf_that_completes_a_cr_ends_no_event():
    assert read(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == ["a\nb"]
    assert read(b"data: a\r", b"\n", b"\n", b"data: b\n\n") == ["a", "b"]


def test_an_event_is_out_with_its_blank_line():
    reader = SseReader()
    assert reader.feed(b"data: a\r\n") == []
    assert reader.feed(b"\r") == ["a"]
    assert reader.feed(b"\ndata: b\n\n") == ["b"]


def test_lines_of_one_event_are_joined_and_only_one_space_is_taken():
    assert read(b"data: a\ndata:  b\ndata\ndata:c\n\n") == ["a\n b\n\nc"]


def test_what_is_no_data_is_no_event():
    assert read(b"data:\n\ndata: \n\nevent: ping\n\n:data: x\n\ndatum: 1\n\n data: y\n\n\n\n") == []


def test_a_character_cut_in_two_is_one_character():
    data = "data: é😀\n\n".encode()
    assert [read(data[:at], data[at:]) for at in range(len(data))] == [["é😀"]] * len(data)


def test_bytes_that_are_no_text_do_not_stop_the_stream():
    assert read(b"data: \xff\n\ndata: b\n\n") == ["\ufffd", "b"]


@pytest.mark.parametrize("data", [b"data: " + b"x" * 200, b"data: x\n" * 200, b":" + b"x" * 200])
def test_an_endless_event_is_refused(data):
    reader = SseReader(limit=100)
    with pytest.raises(ChildFailed, match="100 B"):
        for piece in cut(data, seed=1):
            reader.feed(piece)


def test_many_events_are_not_one_long_one():
    reader = SseReader(limit=100)
    assert len([payload for _ in range(50) for payload in reader.feed(b"data: 12345678\n\n")]) == 50
    assert [payload for _ in range(50) for piece in cut(b": a comment\n", 1) for payload in reader.feed(piece)] == []
