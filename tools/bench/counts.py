"""Does everybody count the same? The client, the engine, and Blazar's audit log and metrics, after each run."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blazar.telemetry.exposition import BadPage, Family, Sample, read

OK = "ok"
INVALID = "INVALID"
NO_AUDIT = "no audit"
"""Client and engine agree, and there is nothing else to compare with: the gateway does not count."""

SETTLE_LIMIT = 2.0
"""Seconds in which counts may catch up: an answer's last byte goes out before its request is counted."""

GENERATIONS = "blazar_generations_total"
TOKENS = ("blazar_prompt_tokens_total", "blazar_completion_tokens_total")
UNTOLD = {"lines": "requests: there is no audit log", "generations": "requests: metrics do not tell them",
          "tokens": "tokens: metrics do not tell those of the API keys"}
"""What is wrong where Blazar has not counted one of these."""


@dataclass(frozen=True)
class Counts:
    """What Blazar has counted; None where it does not tell, which makes a run invalid."""

    lines: int | None = None
    """Lines of the audit log."""
    generations: int | None = None
    tokens: int | None = None
    """Tokens of the run's own API keys, prompts and answers."""

    def since(self, before: "Counts") -> "Counts":
        """What was counted after `before`; unknown where either is."""
        return Counts(*(None if now is None or then is None else now - then for now, then in (
            (self.lines, before.lines), (self.generations, before.generations), (self.tokens, before.tokens))))


class AuditLines:
    """Counts the lines of an audit log, also when it is rotated between two looks (at most once)."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._inode = 0
        self._offset = 0
        self._lines = 0
        self._seen = False

    def count(self) -> int | None:
        """Lines since the first look; None as long as there is no log."""
        try:
            inode = self._file.stat().st_ino
        except FileNotFoundError:
            return self._lines if self._seen else None
        if self._seen and inode != self._inode:
            self._read(self._file.with_name(self._file.name + ".1"))
            self._offset = 0
        self._seen, self._inode = True, inode
        self._read(self._file)
        return self._lines

    def _read(self, file: Path) -> None:
        with open(file, "rb") as log:
            log.seek(self._offset)
            while block := log.read(1 << 20):
                self._lines += block.count(b"\n")
                self._offset += len(block)


def from_metrics(text: str, lines: int | None, keys: Collection[str]) -> Counts:
    """`keys` are the names of the run's API keys: tokens that went to others, or to nobody, do not count.

    A page that tells a sample twice, or is none, tells nothing.
    """
    try:
        families = {family.name: family for family in read(text)}
    except BadPage:
        families = {}
    generations = _sum(families, GENERATIONS, lambda sample: True)
    tokens = [_sum(families, name, lambda sample: dict(sample.labels).get("key") in keys) for name in TOKENS]
    return Counts(lines, generations, None if None in tokens else sum(filter(None, tokens)))


def _sum(families: Mapping[str, Family], name: str, counts: Callable[[Sample], bool]) -> int | None:
    """A counter's samples together, as far as they count; None without any."""
    values = [float(sample.value) for sample in families[name].samples if counts(sample)] if name in families else []
    return round(sum(values)) if values else None


def verdict(client: Mapping[str, Any], engine: Mapping[str, Any], counted: Counts | None) -> str:
    """OK, NO_AUDIT, or `INVALID: ` and who disagrees. `counted` is what Blazar counted during the run; None for a
    gateway that does not count."""
    untold = [] if counted is None else [words for name, words in UNTOLD.items() if getattr(counted, name) is None]
    faults = _faults_of(client) + untold + _differences(client, engine, counted)
    if faults:
        return f"{INVALID}: {'; '.join(faults)}"
    return NO_AUDIT if counted is None else OK


def settled(look: Callable[[], str], limit: float = SETTLE_LIMIT) -> str:
    """The verdict of `look` once it is good, or the last one when it does not become good."""
    deadline = time.monotonic() + limit
    while (found := look()).startswith(INVALID) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def _faults_of(client: Mapping[str, Any]) -> list[str]:
    faults = [f"{count} {kind} errors" for kind, count in client["errors"].items() if count]
    if client["unfinished"]:
        faults.append(f"{client['unfinished']} unfinished")
    if client["first_error"]:
        faults.append(f"first: {client['first_error']}")
    return faults


def _differences(client: Mapping[str, Any], engine: Mapping[str, Any], counted: Counts | None) -> list[str]:
    left = len(client["left"])
    unheard = max(0, left - engine["cancelled"])  # left so early that the engine never heard of them
    pairs = [("requests", "client", client["requests"] - unheard, "engine", engine["requests"]),
             ("answers", "client", client["ended"], "engine", engine["finished"]),
             ("events", "client", client["events"], "engine", engine["events"]),
             ("leavers", "client", left - unheard, "engine", engine["cancelled"])]
    if counted is not None:
        pairs += [("requests", "client", client["requests"], "audit log", counted.lines),
                  ("requests", "client", client["requests"], "metrics", counted.generations)]
        if not left:  # of an answer that was left the engine never tells its count
            pairs += [("tokens", "engine", engine["prompt_tokens"] + engine["completion_tokens"], "metrics",
                       counted.tokens)]
    return [f"{what}: {one} {first}, {other} {second}" for what, one, first, other, second in pairs
            if second is not None and first != second]
