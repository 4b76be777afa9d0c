"""Who listens to events at this gateway worker. One that does not read is cut off when BEHIND events wait."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from blazar.errors import ListenersFull
from blazar.proxy import greens
from blazar.telemetry.events import Event

MOST = 64
"""Listeners at a time, of one gateway worker."""
BEHIND = 256
"""Events that may wait for a listener."""


class Listener:
    """`interrupt` ends the greenlet that serves it, wherever that waits."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self.over = False
        """Whether no more events will come."""
        self._interrupt = interrupt
        self._waiting: deque[Event] = deque()
        self._news = greens.Event()

    def hear(self, event: Event) -> bool:
        """Take an event; False when too many wait already: then it is cut off."""
        if len(self._waiting) >= BEHIND:
            self._waiting.clear()
            self._interrupt()
            return False
        self._waiting.append(event)
        self._news.set()
        return True

    def end(self) -> None:
        """Let it have what has come, and no more."""
        self.over = True
        self._news.set()

    def take(self, limit: float) -> list[Event]:
        """What has come, or will within `limit` seconds."""
        self._news.wait(limit)
        self._news.clear()
        taken = list(self._waiting)
        self._waiting.clear()
        return taken


class Listeners:
    """Used in greenlets, and on the reader of the control connection, which is one too."""

    def __init__(self) -> None:
        self._listeners: set[Listener] = set()
        self._closed = False

    @contextmanager
    def join(self, interrupt: Callable[[], None]) -> Iterator[Listener]:
        """A listener, for as long as this lasts. Raises ListenersFull."""
        if len(self._listeners) >= MOST:
            raise ListenersFull(most=MOST)
        listener = Listener(interrupt)
        if self._closed:
            listener.end()
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def hear(self, event: Event) -> None:
        """The supervisor tells of an event."""
        for listener in list(self._listeners):
            if not listener.hear(event):
                self._listeners.discard(listener)

    def end(self, for_good: bool = False) -> None:
        """End all streams: they come back, and are then told what they have missed; `for_good`, to another worker."""
        self._closed = self._closed or for_good
        for listener in list(self._listeners):
            listener.end()

    def __len__(self) -> int:
        return len(self._listeners)


OF_THE_OWNER = frozenset({"keys_changed", "config_refused"})
"""Kinds that name all API keys, or lines and files of the configuration."""


def visible(allows: Callable[[str], bool], key: str | None) -> Callable[[dict[str, Any]], bool]:
    """Whether an event may be told: not what another API key than the one called `key` was refused, nothing of models
    that it may not use, as `allows` says, nor of pulls that may bring one, and not what is the owner's. For None,
    everything."""
    def may_see(event: dict[str, Any]) -> bool:
        if key is None:
            return True
        model = event.get("model", event.get("reference"))
        return (event["event"] not in OF_THE_OWNER and event.get("key", key) == key
                and (model is None or allows(model)))
    return may_see
