"""From rows to figures: the ratios that are promised, and what was promised.

A row is one run of one workload against one target, in one repeat of one round. Ratios are taken within a repeat, where
both sides met the same machine, and the median of them all counts. `added` times have the engine's own, measured
directly in the same repeat, taken away first.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tools.bench.counts import INVALID

Row = Mapping[str, Any]
Measure = Callable[[Row], float | None]

class Unmeasured(Exception):
    """There is no such figure: a row is missing, or holds nothing."""


class Unsound(Unmeasured):
    """A row is there, and its counts do not agree."""


@dataclass(frozen=True)
class Bound:
    """`<= 1.8` or `>= 0.25`."""

    sign: str
    limit: float

    def __str__(self) -> str:
        return f"{self.sign} {self.limit:g}"

    def holds(self, value: float) -> bool:
        return value <= self.limit if self.sign == "<=" else value >= self.limit

    def loosened(self, factor: float) -> "Bound":
        return Bound(self.sign, self.limit * factor if self.sign == "<=" else self.limit / factor)


def at_most(limit: float) -> Bound:
    return Bound("<=", limit)


def at_least(limit: float) -> Bound:
    return Bound(">=", limit)


class Round:
    """The rows of one round, or of one repeat of it."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = {(row["workload"], row["target"]): row for row in rows}

    def read(self, workload: str, target: str, measure: Measure) -> float:
        """Raises Unmeasured and Unsound."""
        row = self._rows.get((workload, target))
        if row is None:
            raise Unmeasured(f"{workload} was not run with {target}")
        if row["check"].startswith(INVALID):
            raise Unsound(f"{workload} with {target}: {row['check']}")
        value = measure(row)
        if value is None:
            raise Unmeasured(f"{workload} with {target} measured nothing")
        return value

    def ratio(self, workload: str, target: str, other: str, measure: Measure) -> float:
        return _divide(self.read(workload, target, measure), self.read(workload, other, measure), workload, other)

    def added_ratio(self, workload: str, target: str, other: str, measure: Measure) -> float:
        direct = self.read(workload, "direct", measure)
        return _divide(self.read(workload, target, measure) - direct, self.read(workload, other, measure) - direct,
                       workload, other)


def _divide(value: float, base: float, workload: str, other: str) -> float:
    if base <= 0:
        raise Unmeasured(f"{workload}: {other} took no longer than the engine alone, which is noise")
    return value / base


# -- what is read of a row ---------------------------------------------------------------------------------


def latency(row: Row) -> float | None:
    return _middle(row, "latency_us")


def first_event(row: Row) -> float | None:
    return _middle(row, "first_event_us")


def event_delay(row: Row) -> float | None:
    return _middle(row, "event_delay_us")


def rate(row: Row) -> float | None:
    return row["client"]["rps"] or None


def cpu_per_event(row: Row) -> float | None:
    """Microseconds of CPU for each piece that the engine wrote: the events of the streams, and their ends."""
    pieces = row["client"]["events"] + row["client"]["ended"]
    return row["cpu_ns"] / 1000 / pieces if pieces else None


def noticed(row: Row) -> float | None:
    """Microseconds from a client's leaving to the close of its connection to the engine, in the median."""
    left = dict(row["client"]["left"])
    waits = [(at - left[serial]) / 1000 for serial, at in row["engine"]["cancels"] if serial in left]
    return statistics.median(waits) if waits else None


def _middle(row: Row, name: str) -> float | None:
    return row["client"][name] and row["client"][name]["p50"]


# -- several rounds ----------------------------------------------------------------------------------------


def over_rounds(rounds: Iterable[Round], read: Callable[[Round], float]) -> float:
    """The median of what each round gives; a round without the figure is passed over, an unsound one is not.

    Raises Unmeasured when no round has it, and Unsound.
    """
    values = []
    why = Unmeasured("there was no round")
    for one in rounds:
        try:
            values.append(read(one))
        except Unsound:
            raise
        except Unmeasured as error:
            why = error
    if not values:
        raise why
    return statistics.median(values)


def rounds_of(rows: Iterable[Row]) -> list[Round]:
    """Repeats after the first hold only the workloads that have so many."""
    grouped: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        grouped.setdefault((row["round"], row["repeat"]), []).append(row)
    return [Round(grouped[number]) for number in sorted(grouped)]
