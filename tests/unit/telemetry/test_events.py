import json

import pytest

from blazar.telemetry import events
from blazar.telemetry.events import EVENTS, LONGEST_TEXT, Ring


def filled(count, kept=4):
    ring = Ring("life", kept=kept)
    return ring, [ring.add("model_ready", {"model": f"m{number}"}) for number in range(count)]


def test_an_event():
    ring, _ = filled(0)
    event = ring.add("model_ready", {"model": "m:q4_0", "slots": 2})
    assert (event["id"], event["event"], event["model"], event["slots"]) == ("life-1", "model_ready", "m:q4_0", 2)
    assert event["time"].endswith("Z") and len(event["time"]) == 24
    assert events.place(event) == 1


def test_who_comes_back_gets_what_followed():
    ring, told = filled(3)
    assert ring.after("life-3") == ([], False)
    assert ring.after("life-1") == (told[1:], False)
    assert ring.after("life-0") == (told, False)


@pytest.mark.parametrize("last", ["life-0", "life-1", "life-9", "other-6", "", "-", "life-", "life--1", "6", "life-²",
                                  "life-" + "9" * 90, "x" * 100, "life-6-6"])
def test_what_is_gone_or_never_was_is_a_gap(last):
    ring, told = filled(7)
    assert ring.after(last) == (told[3:], True)


def test_the_ring_keeps_no_more_than_it_may():
    ring, told = filled(7)
    assert ring.after("life-3") == (told[3:], False)
    assert ring.after("life-2")[1]


def test_those_since_a_time():
    ring, told = filled(2)
    assert ring.since(told[0]["time"]) == told and ring.since("9999") == []


def test_long_texts_are_cut_and_what_is_hidden_is_hidden():
    ring = Ring("x", lambda text: text.replace("secret", "…"))
    event = ring.add("model_failed", {"message": "secret" + "y" * 99_999, "keys": ["a"]})
    assert len(event["message"]) == LONGEST_TEXT - 5 and "secret" not in event["message"] and event["keys"] == ["a"]


def test_the_wire():
    event = {"id": "life-1", "event": "model_ready", "time": "T", "model": "a\nb\r\ndata: c"}
    text = events.line(event).decode()
    head, data = text.removesuffix("\n\n").split("\ndata: ")
    assert head == "id: life-1\nevent: model_ready" and json.loads(data) == event and text.count("\n") == 4
    assert events.line(events.gap()).startswith(b"event: gap\ndata: ")


def test_every_kind_is_explained():
    for kind, (meaning, fields) in EVENTS.items():
        assert kind.replace("_", "").isalpha() and meaning.endswith((".", "settings.")) and fields.split()
