"""`Refusal`: why a value is not accepted and what to write instead; and the words that such messages are made of."""

import json
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

KeyPath = tuple[str | int, ...]
"""Where a value stands: ("keys", 0, "rpm")."""


class Refusal(Exception):
    """A value is refused: at which place inside it, why, and what to write instead."""

    def __init__(self, problem: str, remedy: str, path: KeyPath = ()) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy
        self.path = path


class Refusals(Exception):
    """Several at once, from the entries and fields of a table."""

    def __init__(self, refusals: list[Refusal]) -> None:
        super().__init__(f"{len(refusals)} refused values")
        self.refusals = refusals


def nearest(name: str, names: Iterable[str]) -> str | None:
    """What `name` was probably meant to be: the likeliest of `names`, swapped letters before other slips."""
    wanted = name.lower().replace("-", "_")
    found = get_close_matches(wanted, list(names), n=3, cutoff=0.6)
    return min(found, key=lambda one: sorted(one) != sorted(wanted), default=None)


def show(value: Any) -> str:
    """A refused value as its writer knows it, cut to a readable length."""
    kinds = {bool: "the boolean ", str: "the text ", int: "the number ", float: "the number ", list: "the list ",
             dict: "the table "}
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:
        text = "of thousands of digits"
    short = text if len(text) <= 60 else text[:57] + "..."
    return kinds.get(type(value), "the value ") + short


def each(error: Refusal | Refusals) -> list[Refusal]:
    return error.refusals if isinstance(error, Refusals) else [error]


def inside(place: str | int, error: Refusal | Refusals) -> list[Refusal]:
    """The refusals of an inner value, as seen from the value around it."""
    return [Refusal(one.problem, one.remedy, (place, *one.path)) for one in each(error)]
