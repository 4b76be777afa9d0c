"""Long work that is asked for over the control socket: pulls. Each runs on a thread and tells how far it is.

Whoever asked may cancel it; when the connection it came over closes, it is cancelled too. What has come of a cancelled
download is kept.
"""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from blazar.control import Link, Message
from blazar.errors import BlazarError, DownloadStopped, UsageRefused
from blazar.store.pull import Means, Summary, Teller, pull
from blazar.store.store import Store
from blazar.supervisor.pool import Pool

MOST = 8
"""Pulls that run at a time; others wait for their turn."""


class Jobs:
    """Used on the loop's thread only. `done` is called there with the model that a pull has installed."""

    def __init__(self, pool: Pool, store: Store, means: Means, done: Callable[[Link, Message, Summary], None],
                 publish: Callable[..., None] = lambda kind, **fields: None) -> None:
        self._pool = pool
        self._store = store
        self._means = means
        self._done = done
        self._publish = publish
        self._running: dict[tuple[Link, int], threading.Event] = {}

    def start(self, link: Link, message: Message) -> None:
        """Begin what the message asks for; its answer follows when it has ended."""
        job = link, int(message["job"])
        if message["verb"] != "pull" or job in self._running:
            raise UsageRefused(f"there is no job {message['verb']!r}, or its number is taken")
        reference, stop = str(message["reference"]), threading.Event()
        self._running[job] = stop
        teller = _Notes(*job)

        def pulled() -> Summary:
            if stop.is_set():
                raise DownloadStopped(url=reference)
            return pull(self._store, reference, replace(self._means, stop=stop), teller=teller)

        def ended(model: Any, error: BlazarError | None) -> None:
            self._running.pop(job, None)
            if error is not None:
                self._publish("pull_failed", reference=reference, error=error.slug, message=error.message)
                link.refuse(message, error)
            else:
                self._publish("pull_finished", reference=reference, model=model["name"])
                self._done(link, message, model)

        self._publish("pull_started", reference=reference)
        self._pool.submit(ended, pulled)

    def take(self, means: Means) -> None:
        """What begins from now on goes by these."""
        self._means = means

    def cancel(self, link: Link, message: Message) -> None:
        stop = self._running.get((link, int(message["job"])))
        if stop is not None:
            stop.set()

    def drop(self, link: Link) -> None:
        """Cancel what was asked for over a connection that has closed."""
        for (owner, _), stop in self._running.items():
            if owner is link:
                stop.set()

    def end(self) -> None:
        """Cancel everything: the daemon stops."""
        for stop in self._running.values():
            stop.set()


class _Notes(Teller):
    """Sends what a pull tells to whoever asked for it."""

    def __init__(self, link: Link, job: int) -> None:
        self._link = link
        self._job = job

    def says(self, text: str) -> None:
        self._link.note("progress", job=self._job, says=text)

    def begins(self, name: str, sha256: str | None, size: int | None) -> None:
        self._link.note("progress", job=self._job, begins=name, sha256=sha256, size=size)

    def progress(self, stage: str, done: int, total: int | None) -> None:
        self._link.note("progress", job=self._job, stage=stage, done=done, total=total)
