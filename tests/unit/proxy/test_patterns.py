"""Patterns of strangers: tried when that surely ends soon, and else not."""

import pytest

from blazar.proxy.patterns import Hard, degree, searched


@pytest.mark.parametrize(("pattern", "power"), [
    ("^abc$", 0), ("abc", 1), ("^[a-c]{3}$", 0), ("^a+$", 1), ("^[a-z]+@[a-z]+$", 2), ("a*|b*", 3), ("^(a{2}b){3}$", 0),
    ("^(?:ab?)$", 1),
])
def test_how_much_work(pattern, power):
    assert degree(pattern) == power


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|b*)*", "(a?){20}", r"(a)\1", "a(?=b)", "(", r"\p{L}",
                                     "a{1,99999999999}"])
def test_what_is_not_tried(pattern):
    with pytest.raises(Hard):
        searched(pattern, "a" * 40)


def test_the_length_of_the_text_counts():
    assert searched("^[a-z]+-[0-9]+$", "ab-12") and not searched("^[a-z]+-[0-9]+$", "ab-")
    with pytest.raises(Hard):
        searched("^[a-z]+-[0-9]+$", "a" * 2000)
