"""The page on errors: each has a cause and a remedy, in one row, and no words were left behind by one that is gone."""

import re

import pytest

from blazar.errors import all_errors
from tools.troubles import OPTIONAL, WORDS, explained, page

ERRORS = all_errors()


@pytest.mark.parametrize("slug", ERRORS)
def test_each_error_has_a_cause_and_a_remedy(slug):
    cause, remedy = explained(ERRORS[slug])
    assert len(cause) > 10 and len(remedy) > 8 and "{" not in cause + remedy


def test_each_has_one_row():
    rows = re.findall(r"^\| `([a-z0-9-]+)` \|", page(), re.MULTILINE)
    assert sorted(rows) == sorted(ERRORS) and set(WORDS) <= set(ERRORS)


def test_facts_are_words_in_capitals():
    class Example:
        """cannot read {a_path!r}, or '{other}': {reason}{near}; ask {name} for {limit}"""
        slug = "an-example"

    assert "near" in OPTIONAL
    assert explained(Example) == ("cannot read A PATH, or OTHER: REASON", "ask NAME for LIMIT")


def test_what_only_a_case_can_tell_counts_as_missing():
    class Open:
        """{message}; {remedy}"""
        slug = "an-open-one"

    assert explained(Open) == ("", "")
