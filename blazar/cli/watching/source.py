"""What a running daemon tells of itself, again and again: its events, and its counts.

The daemon of this data dir is asked over its control socket, whose owner needs no API key; the one that BLAZAR_HOST
names, over HTTP. Each time anew, so a daemon that is started again is found again.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from blazar.cli.client import ask_daemon_of
from blazar.cli.context import Context
from blazar.errors import BlazarError
from blazar.telemetry.events import GAP, gap
from blazar.telemetry.exposition import BadPage, Family, read

Event = dict[str, Any]
MOST_AGE = 99999
"""Seconds of the past of which the daemon can be asked."""


class Source:
    """`age`: how many seconds of the past the first call of `news` tells, too."""

    def __init__(self, context: Context, age: int) -> None:
        self._context = context
        self._since = datetime.now(UTC) - timedelta(seconds=age)
        self._last = ""
        self._in_gap = False
        """Whether a gap was the last that was told."""

    def news(self) -> list[Event]:
        """The events since the last call; a gap is one of its own, told once. Raises DaemonUnreachable and its kin."""
        found = self._told()
        if self._in_gap and found and found[0]["event"] == GAP:
            found = found[1:]  # a daemon that has just come up has no event after which it could be asked
        for event in found:
            self._last = event.get("id", self._last)
            self._in_gap = event["event"] == GAP
        return found

    def _told(self) -> list[Event]:
        last = {"last": self._last} if self._last else {
            "since": self._since.isoformat(timespec="milliseconds").replace("+00:00", "Z")}
        told = None if self._context.env.get("BLAZAR_HOST") else ask_daemon_of(
            self._context.located.paths, "events", **last)
        if told is not None:
            return [gap()] * bool(told["missed"]) + list(told["events"])
        age = min(MOST_AGE, max(0, round((datetime.now(UTC) - self._since).total_seconds())))
        query = f"last_event_id={quote(self._last)}" if self._last else f"since={age}"
        return parsed(self._context.client.text(f"/api/events?follow=false&{query}"))

    def families(self) -> dict[str, Family]:
        """The counts by name, but for those of engines. Raises DaemonUnreachable and its kin."""
        told = None if self._context.env.get("BLAZAR_HOST") else ask_daemon_of(
            self._context.located.paths, "metrics", engines=False)
        text = told["text"] if told is not None else self._context.client.text("/metrics?engines=false")
        try:
            return {family.name: family for family in read(text)}
        except BadPage as error:
            raise BlazarError(f"the counts that the daemon tells cannot be read: {error}") from error


def parsed(text: str) -> list[Event]:
    """The events of a whole text/event-stream. Raises BlazarError when it is none."""
    try:
        events = [json.loads(line.removeprefix("data:")) for line in text.split("\n") if line.startswith("data:")]
    except ValueError:
        events = [None]
    if not all(isinstance(event, dict) and {"event", "time"} <= event.keys() for event in events):
        raise BlazarError("the server sent no events; is it a Blazar?")
    return events


def sentence(event: Event) -> str:
    """An event as one line: when, what, and its fields."""
    what = "(some events before these are gone)" if event["event"] == GAP else event["event"]
    fields = {name: value for name, value in event.items() if name not in ("id", "event", "time")}
    told = " ".join(f"{name}={_value(value)}" for name, value in fields.items())
    return f"{event['time'][:19]}Z  {what}  {told}".rstrip()


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    plain = text and " " not in text and "\n" not in text and '"' not in text
    return text if plain or not isinstance(value, str) else json.dumps(value, ensure_ascii=False)
