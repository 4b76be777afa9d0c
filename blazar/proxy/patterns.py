"""How much work a regular expression may make, told from its form: Python's own has no limit of time.

Patterns come from clients, and what they are held against comes from models. One that repeats within a repetition may
take for ever; the others take at most the length of the text to the power of the number of their repetitions.
"""

import re
import warnings
from collections.abc import Iterable
from typing import Any

MOST_STEPS = 1_000_000
"""Of one search; some tens of milliseconds."""


class Hard(Exception):
    """The pattern cannot be tried within bounds."""


def searched(pattern: str, text: str) -> bool:
    """Whether `pattern` is found in `text`. Raises Hard for one that might take long, or that Python does not read."""
    if (len(text) + 1) ** degree(pattern) > MOST_STEPS:
        raise Hard
    return re.search(pattern, text) is not None


def degree(pattern: str) -> int:
    """The power of the text's length that a search may take. Raises Hard."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = re._parser.parse(pattern)  # type: ignore[attr-defined]
    except (re.error, OverflowError, RecursionError) as error:
        raise Hard from error
    return _repetitions(tree) + (not pattern.startswith("^"))


def _repetitions(nodes: Iterable[Any]) -> int:
    total = 0
    for kind, argument in nodes:
        name = str(kind)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, inner = argument
            within = _repetitions(inner)
            varies = least != most
            if within and (varies or most > 1):
                raise Hard
            total += within + varies
        elif name in ("ASSERT", "ASSERT_NOT", "GROUPREF", "GROUPREF_EXISTS"):
            raise Hard
        elif name == "SUBPATTERN":
            total += _repetitions(argument[-1])
        elif name == "ATOMIC_GROUP":
            total += _repetitions(argument)
        elif name == "BRANCH":
            total += sum(map(_repetitions, argument[1]))
    return total
