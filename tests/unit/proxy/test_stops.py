import random

import pytest

from blazar.proxy.stops import StopCutter


def through(stops, pieces):
    """What a cutter lets through of the pieces, and which stop it found."""
    cutter = StopCutter(stops)
    shown = [cutter.feed(piece) for piece in pieces]
    return "".join([*shown, cutter.rest()]), cutter.found


@pytest.mark.parametrize(("stops", "text", "shown", "found"), [
    (["STOP"], "A STOP B", "A ", "STOP"), (["STOP"], "A STO", "A STO", None), ([], "STOP", "STOP", None),
    (["B", "AB"], "xABy", "x", "AB"), (["AB", "A"], "xABy", "x", "AB"), (["b", "a"], "xab", "x", "a"),
    (["aab"], "aaab", "a", "aab"), (["\n\nHuman:"], "a\n\nHum", "a\n\nHum", None), (["x"], "", "", None),
    (["日本"], "naï日本", "naï", "日本"), (["a"], "aaa", "", "a")])
def test_whole_texts(stops, text, shown, found):
    assert through(stops, [text]) == (shown, found)


@pytest.mark.parametrize("seed", range(50))
def test_it_does_not_matter_how_the_text_comes_unless_two_stops_overlap(seed):
    chance = random.Random(seed)
    stop = "".join(chance.choice("ab") for _ in range(chance.randint(1, 4)))
    text = "".join(chance.choice("abc") for _ in range(30))
    pieces, rest = [], text
    while rest:
        size = chance.randint(1, 4)
        pieces.append(rest[:size])
        rest = rest[size:]
    assert through([stop], pieces) == through([stop], [text])
    assert through([stop], [text])[0] == text.partition(stop)[0]


def test_only_what_may_begin_a_stop_is_held_back():
    cutter = StopCutter(["STOP", "\n\n"])
    assert [cutter.feed(piece) for piece in ("A", " S", "x", "ST", "\n", "b")] == ["A", " ", "Sx", "", "ST", "\nb"]
    assert cutter.rest() == ""


def test_the_rest_is_given_once():
    cutter = StopCutter(["STOP"])
    assert (cutter.feed("ST"), cutter.rest(), cutter.rest(), cutter.feed("OP")) == ("", "ST", "", "OP")
