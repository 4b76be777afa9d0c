"""`Events`: the one place that events go to. `publish` is all that others need."""

import logging
from typing import Any

from blazar.control import Link, Message
from blazar.supervisor.workers import Workers
from blazar.telemetry.events import EVENTS, Ring
from blazar.telemetry.supervisor_metrics import SupervisorMetrics

log = logging.getLogger(__name__)


class Events:
    """Used on the loop's thread. Each event is counted, kept in the ring, and told to every gateway worker."""

    def __init__(self, ring: Ring, workers: Workers, metrics: SupervisorMetrics) -> None:
        self._ring = ring
        self._workers = workers
        self._metrics = metrics

    def publish(self, kind: str, **fields: Any) -> None:
        """Tell what has happened: a kind of EVENTS, and its fields, which are plain values."""
        self._metrics.count(kind, fields)
        self._workers.note("event", event=self._ring.add(kind, fields))

    def hear(self, link: Link, message: Message) -> None:
        """An event that a gateway worker tells of."""
        kind, fields = str(message["event"]), dict(message["fields"])
        if kind in EVENTS:
            self.publish(kind, **fields)

    def told(self, link: Link, message: Message) -> None:
        """Answer with what is kept: after the id `last`, or from the time `since` on."""
        if message.get("last") is not None:
            events, missed = self._ring.after(str(message["last"]))
        else:
            events, missed = self._ring.since(str(message["since"])), False
        link.answer(message, events=events, missed=missed)
