import random
import time

import pytest

from blazar.telemetry.redact import LONGEST, scrub, scrubber

HIDDEN = [
    # text, how it is shown
    ("mail ann.lee+x@mail.example.com, please", "mail [email], please"),
    ("<bob@example.org>", "<[email]>"),
    ("jürgen@beispiel.de", "[email]"),
    ("from 10.0.0.7:51234", "from [ip]:51234"),
    ("192.168.1.255.", "[ip]."),
    ("(127.0.0.1)", "([ip])"),
    ("::ffff:10.1.2.3", "::ffff:[ip]"),
    ("Authorization: Bearer abc", "Authorization: Bearer [secret]"),
    ("authorization: Basic dXNlcjpwYXNz", "authorization: Basic [secret]"),
    ('{"Authorization": "Bearer sk-ann"}', '{"Authorization": "Bearer [secret]"}'),
    ("Bearer a1b2c3", "Bearer [secret]"),
    ("use bearer abcdefghijklmnopqrstuvwx now", "use bearer [secret] now"),
    ("sk-blazar-Zm9vYmFy_-x", "[secret]"),
    ("key sk-proj-abcdef123456.", "key [secret]"),
    ("hf_AbCdEfGhIjKl", "[secret]"),
    ("ghp_0123456789abcdef", "[secret]"),
    ("AKIAIOSFODNN7EXAMPLE", "[secret]"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_123", "[secret]"),
    ("api_key=hello&x=1", "api_key=[secret]&x=1"),
    ('"apiKey": "hello"', '"apiKey": "[secret]"'),
    ("x-api-key: hello", "x-api-key: [secret]"),
    ("?key=hello", "?key=[secret]"),
    ("password = hunter2", "password = [secret]"),
    ("HF_TOKEN=abc", "HF_TOKEN=[secret]"),
    ("postgres://ann:pass@db.example.com/x", "postgres://[secret]@db.example.com/x"),
]
SHOWN = [
    "", "hello there", "basic understanding", "the bearer of bad news", "scikit: sk-learn", "1.2.3", "256.1.1.1",
    "1.2.3.4.5", "llama3:8b", "a @ b", "qwen2.5-0.5b-instruct:q4_k_m", "2026-11-30T02:06:12.744Z", "keyboard: qwerty",
    "req_ac94f74aabd9f14dd396133f", "tokens 5 of 7",
]


@pytest.mark.parametrize(("text", "shown"), HIDDEN)
def test_what_is_hidden(text, shown):
    assert scrub(text) == shown


@pytest.mark.parametrize("text", SHOWN)
def test_what_stays(text):
    assert scrub(text) == text


@pytest.mark.parametrize("text", [text for text, _ in HIDDEN])
def test_what_was_hidden_once_stays_as_it_is(text):
    assert scrub(scrub(text)) == scrub(text)


@pytest.mark.parametrize("piece", ["a", "a.", "1", "1.", "a@", "a@b.", "://", "bearer ", "Bearer a", "sk-", "key=",
                                   "key ", "authorization:", "token: ", "eyJ", "-", "é", " \t", "a'", "://a@",
                                   "\"key\": \""])
def test_time_is_linear(piece):
    """Half the length that is looked at, and all of it: about twice the time, and little of it."""
    text = piece * (LONGEST // len(piece))
    began = time.process_time()
    scrub(text)
    assert time.process_time() - began < 1.0


def test_the_end_of_a_long_text_goes_with_the_word_that_is_torn():
    text = "word " * (LONGEST // 5) + "x" * 10
    assert len(scrub(text)) <= LONGEST and scrub(text).endswith("word…")
    for before in ("Authorization: Bearer ", "mail ", ""):
        torn = ("w " * LONGEST)[:LONGEST - len(before) - 8] + before + "ann.lee@example.com-a1b2c3d4"
        assert "ann" not in scrub(torn)
    assert scrub("x" * (LONGEST + 1)) == "…"


def test_switched_off():
    assert scrubber(False)("ann@example.com 10.0.0.1") == "ann@example.com 10.0.0.1"
    assert scrubber(True)("ann@example.com") == "[email]"


def test_an_address_and_a_name_between_anything_else():
    chance = random.Random(7)
    for _ in range(500):
        before, after = ("".join(chance.choices("ab.:@/=-'\" 15é\n{[", k=chance.randrange(30))) for _ in range(2))
        address = ".".join(str(chance.randrange(256)) for _ in range(4))
        shown = scrub(f"{before} {address} ann.lee@example.com {after}")
        assert address not in shown and "ann.lee@" not in shown, (before, address, after)
