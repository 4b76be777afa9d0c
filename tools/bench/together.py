"""What docs/performance.md is made of: one run of `make bench` or several, and the long run beside them."""

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.bench import counts, soak
from tools.bench.promises import OTHER_END
from tools.bench.workloads import REFERENCES, WORKLOADS

ROUNDS = 5
"""Rounds that a run of the page has at least."""
TARGETS = REFERENCES | {"blazar", OTHER_END}
"""What it has to compare; LiteLLM may be there besides."""
SOAK = "soak_growth"
"""The name of the long run's promise."""

Run = Mapping[str, Any]
"""The content of a latest.json."""
Entry = Mapping[str, Any]
"""A promise, as `promises.judge` has it."""


class Refused(Exception):
    """No page can be made of this; the message says why, and what to do."""


@dataclass(frozen=True)
class Together:
    runs: Sequence[Run]
    soak: Run | None
    no_soak: str
    """Why the long run is left out; '' when it is not."""

    def entries(self) -> dict[str, Entry]:
        """Each promise, judged by the median of the runs."""
        names = dict.fromkeys(name for run in self.runs for name in run["targets"])
        found = {name: median([run["targets"].get(name) for run in self.runs]) for name in names}
        return found if self.soak is None else {**found, SOAK: entry_of(self.soak)}

    def rows(self) -> list[dict[str, Any]]:
        """Those of all runs."""
        return [row for run in self.runs for row in run["raw"]["rows"]]


def read(files: Sequence[Path]) -> Together:
    """What is in files of runs; a long run is told by its points, or lies beside the first of them. Raises Refused."""
    found = [(file, _content(file)) for file in files]
    runs = [(file, content) for file, content in found if "points" not in content]
    if not runs:
        raise Refused("name the file of a run of `make bench` too")
    for file, run in runs:
        _check(file, run)
    soaks = [content for _, content in found if "points" in content]
    beside = runs[0][0].with_name(soak.FILE.name)
    if not soaks and beside.exists():
        soaks = [_content(beside)]
    no_soak = left_out(soaks[-1] if soaks else None, [run for _, run in runs])
    return Together([run for _, run in runs], None if no_soak else soaks[-1], no_soak)


def _content(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text())
    except FileNotFoundError:
        raise Refused(f"there is no {file}; `make bench` writes build/bench/latest.json") from None
    except ValueError as error:
        raise Refused(f"{file} is no JSON: {error}") from error
    if not isinstance(content, dict) or not ("points" in content or "raw" in content):
        raise Refused(f"{file} is not what `make bench` or `make bench-soak` has written")
    return content


def _check(file: Path, run: Run) -> None:
    """Raises Refused for a quick run, and for one that lacks something."""
    remedy = "no page is made of it. `make bench` makes a whole run"
    if run["rounds"] < ROUNDS:
        raise Refused(f"{file} has {run['rounds']} rounds of the {ROUNDS} that a page needs, so {remedy}")
    rows = run["raw"]["rows"]
    lacking = sorted(TARGETS - {row["target"] for row in rows})
    lacking += [one.name for one in WORKLOADS if one.name not in {row["workload"] for row in rows}]
    if lacking:
        why = "".join(f"\n{name}: {words}" for name, words in run["raw"].get("missing", {}).items())
        raise Refused(f"{file} lacks {', '.join(lacking)}, so {remedy}{why}")


def left_out(result: Run | None, runs: Iterable[Run]) -> str:
    """Why a long run is not shown with these runs; '' when it is."""
    if result is None:
        return "it was not made"
    if not soak.is_whole(result):
        return "it had only {requests:,} requests and {streams:,} streams".format(**result["points"][-1])
    if any(run["raw"].get("sources") != result.get("sources") for run in runs):
        return "it was made with other sources of Blazar"
    return ""


def entry_of(result: Run) -> Entry:
    """The promise of the long run."""
    entry = {name: result[name] for name in ("value", "must", "aim")}
    return {**entry, "value": None, "note": result["invalid"][0]} if result["invalid"] else entry


def median(entries: Sequence[Entry | None]) -> Entry:
    """One promise out of several runs; None stands for a run that did not ask for it.

    Without a value in one of the others it has none; counts that did not agree go before what was not measured.
    """
    asked = [entry for entry in entries if entry is not None]
    values = [entry["value"] for entry in asked]
    notes = sorted((entry["note"] for entry in asked if entry["value"] is None),
                   key=lambda note: not note.startswith(counts.INVALID))
    judged = {**asked[-1], "value": None, "note": notes[0]} if notes else \
        {**asked[-1], "value": statistics.median(values)}
    return {**judged, "runs": [entry and entry["value"] for entry in entries]}
