"""What happens in the daemon and is worth telling: the kinds of events, and a ring of the last ones.

An event is `id`, `event` (its kind), `time`, and the fields of its kind. Ids count up within one life of the daemon,
which is their first part: so whoever comes back after a restart is told that there is a gap.
"""

import json
from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from blazar.units import timestamp

EVENTS = {
    # kind: (what has happened, its fields)
    "daemon_started": ("The daemon serves clients.", "version"),
    "daemon_stopping": ("The daemon was told to stop; running answers have that many seconds.", "grace_secs"),
    "gateway_started": ("A gateway worker was started, and is let in.", "pid"),
    "gateway_ended": ("A gateway worker has left, or gunicorn has ended.", "pid reason"),
    "model_installed": ("A model has come into the store.", "model"),
    "model_removed": ("A model has left the store.", "model"),
    "model_loading": ("An engine was started for a model.", "model replica child_id pid"),
    "model_ready": ("A model can be used.", "model replica child_id pid load_secs slots ctx"),
    "model_failed": ("A model did not load.", "model replica child_id error message"),
    "model_evicted": ("A model is to go once its requests have ended: it was `idle`, another needs `room`, somebody "
                      "has `asked`, its file was `replaced`, or it is `reshaped`: it comes again with other settings.",
                      "model replica child_id reason why"),
    "model_unloaded": ("The engine of a model has ended as it was told to.", "model replica child_id"),
    "child_died": ("An engine has ended by itself; the next request may start it again after `retry_secs`.",
                   "model replica child_id message retry_secs"),
    "child_restarted": ("A model whose engine had died is ready again.", "model replica child_id"),
    "child_wedged": ("An engine did nothing with its requests, and is ended.", "model child_id"),
    "pull_started": ("A pull has begun.", "reference"),
    "pull_finished": ("A pull has brought its model.", "reference model"),
    "pull_failed": ("A pull has come to nothing, or was cancelled.", "reference error message"),
    "keys_changed": ("API keys were read again; those are in force now.", "keys"),
    "config_reloaded": ("The configuration was read again, and is in force.", "changed"),
    "config_refused": ("The configuration was read again, and the old one stays in force.", "message"),
    "key_limited": ("Requests of an API key were refused because of a limit of it, `count` within a second.",
                    "key limit count"),
    "queue_refused": ("Requests were refused because too many others waited, `count` within a second.",
                      "model reason count"),
}

GAP = "gap"
"""The kind that says that events before the next one are missing. It has no id."""
KEPT = 1024
"""Events that are kept for those who come back."""
LONGEST_TEXT = 2000
"""Characters of one field."""

Event = dict[str, Any]


class Ring:
    """The last events, numbered. `life` is another word in each life of the daemon; `shown` makes of a text what others
    may see."""

    def __init__(self, life: str, shown: Callable[[str], str] = str, kept: int = KEPT) -> None:
        self._life = life
        self._shown = shown
        self._events: deque[Event] = deque(maxlen=kept)
        self._count = 0

    def add(self, kind: str, fields: Mapping[str, Any]) -> Event:
        """Note that something has happened. `fields` are plain values."""
        self._count += 1
        told = {name: self._shown(value[:LONGEST_TEXT]) if isinstance(value, str) else value
                for name, value in fields.items()}
        event = {"id": f"{self._life}-{self._count}", "event": kind, "time": timestamp("milliseconds"), **told}
        self._events.append(event)
        return event

    def after(self, last: str) -> tuple[list[Event], bool]:
        """The events that have followed the one with the id `last`, and whether some of them are gone, as is said for
        an id of another life, or one that never was."""
        life, _, number = last.rpartition("-")
        known = int(number) if life == self._life and number.isascii() and number.isdigit() and len(number) < 19 else -1
        first = self._count - len(self._events)
        if first <= known <= self._count:
            return list(islice(self._events, known - first, None)), False
        return list(self._events), True

    def since(self, time: str) -> list[Event]:
        """The events that are kept of the time from `time` on, which is written as theirs are."""
        return [event for event in self._events if event["time"] >= time]


def place(event: Event) -> int:
    """Which in its life an event is, from 1 on."""
    return int(event["id"].rpartition("-")[2])


def line(event: Mapping[str, Any]) -> bytes:
    """An event as text/event-stream has it."""
    head = f"id: {event['id']}\n" if "id" in event else ""
    return f"{head}event: {event['event']}\ndata: {json.dumps(event, separators=(',', ':'))}\n\n".encode()


def gap() -> Event:
    return {"event": GAP, "time": timestamp("milliseconds")}
