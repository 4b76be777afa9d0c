import random

import pytest

from blazar.proxy.wire.framing import LAST_CHUNK, BadFraming, ChunkedFraming, CloseFraming, LengthFraming, chunk
from tests.support.corpus import cases

IRREGULAR = [b"zz\r\n", b"-1\r\nx", b"+5\r\n", b"\r\n", b"0x5\r\nhello\r\n", b"1_0\r\n", b"5\nhello",
             b"3\r\nabcdef\r\n", b"3\r\nabc\rX", b"3\r\nabcX\n", b"0\r\n\n", b"0\r\nA: b\n", b"f" * 16 + b"\r\n",
             b"5" * 5000, b"1;" + b"x" * 5000, b"0\r\n" + b"a: b\r\n" * 5000]
OF_THE_CORPUS = [case.data.partition(b"\r\n\r\n")[2] for case in cases()
                 if case.name.startswith(("hostile-chunk-", "hostile-trailer-"))]
CUT = 2000
"""As far as this they are cut."""
PIECES = [b"data: {}\n\n", b"x", b"\r\n\r\n", b"0\r\n", b"y" * 300, b"abc"]
WIRE = b"".join(map(chunk, PIECES))


def cuts(data: bytes, rng: random.Random) -> list[bytes]:
    places = sorted(rng.sample(range(1, len(data)), rng.randint(0, min(40, len(data) - 1))))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


@pytest.mark.parametrize("ending", [b"0\r\n\r\n", b"000\r\n\r\n", b"0;last=1\r\nX-Trailer: a\r\nY: b\r\n\r\n"])
def test_chunks_are_followed_across_any_split(ending):
    rng = random.Random(7)
    for _ in range(300):
        framing = ChunkedFraming()
        payload = b""
        for part in cuts(WIRE + ending, rng):
            assert not framing.ended
            payload += framing.feed(part)
        assert payload == b"".join(PIECES)
        assert framing.ended and framing.clean and framing.close()


def test_byte_by_byte_a_boundary_is_seen_exactly_between_chunks():
    framing = ChunkedFraming()
    boundaries = {0}
    seen = {0} if framing.at_boundary else set()
    for position, byte in enumerate(WIRE, 1):
        framing.feed(bytes([byte]))
        if framing.at_boundary:
            seen.add(position)
    for piece in PIECES:
        boundaries.add(max(boundaries) + len(chunk(piece)))
    assert seen == boundaries
    framing.feed(b"0\r\n")
    assert not framing.at_boundary, "after the last chunk nothing may begin"


def test_bytes_after_the_end_make_it_unclean():
    framing = ChunkedFraming()
    assert framing.feed(chunk(b"a") + b"0\r\n\r\nHTTP/1.1 200 OK") == b"a"
    assert framing.ended and not framing.clean


@pytest.mark.parametrize("wire", IRREGULAR)
def test_irregular_chunks_are_refused(wire):
    with pytest.raises(BadFraming):
        ChunkedFraming().feed(wire)


@pytest.mark.parametrize("body", [*OF_THE_CORPUS, *IRREGULAR[:-1]])
def test_no_cut_makes_sense_of_a_broken_body(body):
    """Those of the corpus with what follows them, cut in two at every byte: refused for the same reason."""
    whole = refusal(body)
    for cut in range(1, min(len(body), CUT)):
        assert refusal(body[:cut], body[cut:]) == whole, cut
    assert refusal(*(body[at:at + 1] for at in range(len(body)))) == whole


def refusal(*pieces):
    framing = ChunkedFraming()
    with pytest.raises(BadFraming) as refused:
        for piece in pieces:
            framing.feed(piece)
    assert not framing.ended
    return str(refused.value)


def test_chunked_body_that_stops_early_is_not_whole():
    framing = ChunkedFraming()
    framing.feed(chunk(b"a"))
    assert framing.at_boundary and not framing.close() and not framing.ended


def test_length():
    framing = LengthFraming(5)
    assert framing.feed(b"abc") == b"abc" and not framing.ended and not framing.close()
    assert framing.feed(b"deX") == b"de" and framing.ended and not framing.clean
    assert LengthFraming(0).ended


def test_until_close():
    framing = CloseFraming()
    assert framing.feed(b"abc") == b"abc" and not framing.ended
    assert framing.close() and framing.ended and not framing.clean


@pytest.mark.parametrize("sizes", [(1, 15, 16, 255, 256, 2047, 2048), (16,), (0x10, 0xfff), (5, 5, 5)])
def test_several_chunks_in_a_piece_then_the_end(sizes):
    bodies = [bytes([97 + number]) * size for number, size in enumerate(sizes)]
    framing = ChunkedFraming()
    assert framing.feed(b"".join(map(chunk, bodies))) == b"".join(bodies)
    assert framing.at_boundary and not framing.ended
    assert framing.feed(chunk(b"x" * 20) + LAST_CHUNK) == b"x" * 20
    assert framing.ended and framing.clean and not framing.at_boundary


@pytest.mark.parametrize("size", [1, 16, 256])
def test_a_chunk_whose_end_is_no_end_is_refused(size):
    with pytest.raises(BadFraming):
        ChunkedFraming().feed(chunk(b"x" * size)[:-2] + b"xx")
