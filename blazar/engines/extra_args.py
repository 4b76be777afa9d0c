"""`extra_args`: flags of the user's own behind ours, each known to the engine and none given twice."""

import re
from collections.abc import Iterator, Sequence

from blazar.engines.flags import Gate
from blazar.errors import ExtraArgsRefused, FlagMissing

REPEATABLE = frozenset({"--logit-bias", "--dry-sequence-breaker", "--reverse-prompt", "--control-vector", "--lora",
                        "--lora-scaled", "--control-vector-scaled", "--override-kv", "--override-tensor"})
"""Flags that add to what an earlier one of the same name gave."""
_FLAG = re.compile(r"--?[A-Za-z]")


def appended(words: Sequence[str], extra: Sequence[str], gate: Gate) -> list[str]:
    """`words`, written through `gate`, and `extra` behind them. A flag of ours that nobody asked for yields.

    Raises FlagMissing for a flag that the engine does not have, ExtraArgsRefused for one that is given twice.
    """
    ours, extra = list(words), [_spelled(word) for word in extra]
    seen: set[str] = set()
    for flag, values in _groups(extra):
        names = gate.manifest.flags[flag].names if flag in gate.manifest.flags else (flag,)
        _check(flag, values, gate)
        if seen.intersection(names) and not REPEATABLE.intersection(names):
            raise ExtraArgsRefused(model=gate.model, flag=flag, problem="stands there twice", remedy="keep one of them")
        seen.update(names)
        for name in names:
            written = gate.written.get(name)
            if written is None or name in REPEATABLE:
                continue
            if not written.yields:
                raise ExtraArgsRefused(model=gate.model, flag=flag, problem=f"is given by {written.what} already",
                                       remedy=f"keep {written.what}, or the flag, not both")
            place = ours.index(name)
            del ours[place:place + len(written.words)]
            del gate.written[name]
    return [*ours, *extra]


def _spelled(word: str) -> str:
    """A flag as everybody knows it: llama.cpp reads `_` in a long one as `-`."""
    return word.replace("_", "-") if word.startswith("--") else word


def _groups(extra: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each flag with the words behind it that are none."""
    flag = ""
    values: list[str] = []
    for word in extra:
        if _FLAG.match(word):
            if flag:
                yield flag, values
            flag, values = word, []
        else:
            values.append(word)
    if flag:
        yield flag, values


def _check(flag: str, values: list[str], gate: Gate) -> None:
    if not gate.manifest.has(flag):
        raise FlagMissing(model=gate.model, what=f"{flag} in extra_args", engine=gate.engine,
                          lack=f"has no {flag}: mend its spelling, or take it out")
    known = gate.manifest.flags.get(flag)
    if known is None:
        return
    if known.value is None and values:
        raise ExtraArgsRefused(model=gate.model, flag=flag, problem=f"takes no value, and {values[0]} follows",
                               remedy="remove one of the two words")
    most = max(1, len((known.value or "").split()))
    if len(values) > most:
        raise ExtraArgsRefused(model=gate.model, flag=flag, problem=f"takes one value, and {values[most]} follows too",
                               remedy=f"remove {values[most]}, or put its own flag before it")
    if known.value is not None and not values:
        raise ExtraArgsRefused(model=gate.model, flag=flag, problem="needs a value",
                               remedy=f"write it as the next word of the list, a {known.value}")
