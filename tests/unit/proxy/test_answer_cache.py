"""Answers that are kept: how long, how many, and for which questions."""

import math
import random

import pytest

from blazar.proxy.answer_cache import OVERHEAD, AnswerCache, Kept


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def at(degrees):
    """A vector of two numbers in that direction."""
    return [3 * math.cos(math.radians(degrees)), 3 * math.sin(math.radians(degrees))]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cache(clock):
    return AnswerCache(3, 60, 0.9, clock)


def test_the_same_text_and_the_nearest(cache):
    cache.put(b"s", "a", at(0), Kept("A"))
    cache.put(b"s", "b", at(40), Kept("B"))
    assert cache.same(b"s", "a").kept.text == "A" and cache.same(b"s", "c") is None
    found = cache.nearest(b"s", at(30))
    assert found.kept.text == "B" and found.similarity == pytest.approx(math.cos(math.radians(10)))
    assert cache.nearest(b"s", at(-30)) is None, "its cosine is 0.87"


def test_the_threshold_itself_is_enough(clock):
    cache = AnswerCache(3, 60, 0.5, clock)
    cache.put(b"s", "a", at(0), Kept("A"))
    assert cache.nearest(b"s", at(59.9)) and not cache.nearest(b"s", at(60.1))


def test_only_questions_of_one_shape_and_vectors_of_one_length_are_compared(cache):
    cache.put(b"s", "a", at(0), Kept("A"))
    assert cache.nearest(b"t", at(0)) is None and cache.same(b"t", "a") is None
    assert cache.nearest(b"s", [1.0, 0.0, 0.0]) is None


def test_a_vector_of_zeros_is_like_nothing(cache):
    cache.put(b"s", "a", [0.0, 0.0], Kept("A"))
    assert cache.nearest(b"s", [0.0, 0.0]) is None


def test_answers_grow_old(cache, clock):
    cache.put(b"s", "a", at(0), Kept("A"))
    clock.now += 59
    assert cache.same(b"s", "a").age == 59
    clock.now += 1
    assert cache.same(b"s", "a") is None and len(cache) == 0


def test_being_used_does_not_make_an_answer_younger(cache, clock):
    cache.put(b"s", "a", at(0), Kept("A"))
    for _ in range(2):
        clock.now += 25
        assert cache.nearest(b"s", at(1))
    clock.now += 10
    assert cache.nearest(b"s", at(1)) is None


def test_a_new_answer_replaces_the_older_one(cache, clock):
    cache.put(b"s", "a", at(0), Kept("A"))
    clock.now += 50
    cache.put(b"s", "a", at(90), Kept("B"))
    clock.now += 50
    assert len(cache) == 1 and cache.same(b"s", "a").kept.text == "B" and cache.nearest(b"s", at(0)) is None


def test_what_was_used_longest_ago_goes(cache):
    for name in "abc":
        cache.put(name.encode(), name, at(0), Kept(name))
    cache.same(b"a", "a")
    cache.put(b"d", "d", at(0), Kept("d"))
    assert [name for name in "abcd" if cache.same(name.encode(), name)] == ["a", "c", "d"]


def test_bytes_have_a_limit_too(clock):
    cache = AnswerCache(100, 60, 0.9, clock, most_bytes=3 * (OVERHEAD + 1000))
    for number in range(5):
        cache.put(b"s", str(number), at(number), Kept("x" * 240))
    assert len(cache) == 3 and cache.same(b"s", "1") is None and cache.same(b"s", "2")
    cache.put(b"s", "whale", at(0), Kept("x" * 4000))
    assert len(cache) == 3 and cache.same(b"s", "whale") is None


def test_the_books_balance(clock):
    chance = random.Random(5)
    cache = AnswerCache(20, 60, 0.99, clock, most_bytes=40_000)
    for _ in range(2000):
        clock.now += chance.random() * 5
        shape, text = bytes([chance.randrange(3)]), str(chance.randrange(30))
        if chance.random() < 0.5:
            cache.put(shape, text, at(chance.random() * 360), Kept("x" * chance.randrange(3000)))
        else:
            cache.same(shape, text)
            cache.nearest(shape, at(chance.random() * 360))
        entries = [entry for entries in cache._shapes.values() for entry in entries.values()]
        assert set(entries) == set(cache._order) and len(entries) <= 20
        assert cache._bytes == sum(entry.size for entry in entries) <= 40_000


def test_others_have_their_turn_between_comparisons_and_may_change_what_is_kept(clock):
    """Whatever happens meanwhile: what was dropped is not found, and nothing is lost or counted twice."""
    turns = []

    def pace():
        turns.append(len(cache))
        if len(turns) == 3:
            clock.now += 61
            cache.put(b"s", "new", at(90), Kept("N"))
            assert cache.same(b"s", "a") is None and len(cache) == 1

    cache = AnswerCache(10, 60, 0.9, clock, pace=pace)
    for number, text in enumerate("abcd"):
        cache.put(b"s", text, at(10 * number), Kept(text))
    assert cache.nearest(b"s", at(0)) is None and turns == [4, 4, 4, 1]
    assert cache.nearest(b"s", at(89)).kept.text == "N"
