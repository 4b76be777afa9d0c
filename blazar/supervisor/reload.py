"""`Reload`: the configuration is read again, by SIGHUP, `blazar reload` or /api/reload.

One at a time. Whoever asks meanwhile gets the answer of one more, which begins when this one has ended: however many
ask, the file is read twice. A file that is refused changes nothing.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from blazar.config.config import Config
from blazar.errors import BlazarError, CertificateRefused, ShuttingDown
from blazar.supervisor.certificate import Found, read
from blazar.supervisor.notify import notify, reloading
from blazar.supervisor.pool import Pool
from blazar.supervisor.report import Report

log = logging.getLogger(__name__)

Waiter = Callable[[Report | None, BlazarError | None], None]


@dataclass(frozen=True)
class Fresh:
    """What was read."""

    config: Config
    found: Found
    """The certificate and its key."""
    refusal: CertificateRefused | None
    """Why the certificate and its key cannot be used."""


class Reload:
    """Used on the loop's thread. `load` gives the settings as the file says them now; `apply` puts them in force and
    calls back with what has come of it; `publish` tells it as an event."""

    def __init__(self, pool: Pool, load: Callable[[], Config], apply: Callable[[Fresh, Waiter], None],
                 publish: Callable[..., None], tell: Callable[[str], None] = notify,
                 now: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._load = load
        self._apply = apply
        self._publish = publish
        self._tell = tell
        self._now = now
        self._asked: list[Waiter] = []
        self._waiting: list[Waiter] = []
        """Who gets the answer of the one that runs."""
        self._runs = self._ended = False

    def by_signal(self) -> None:
        self.ask(lambda report, error: None)

    def ask(self, waiter: Waiter) -> None:
        """Read it again, and tell `waiter` what has come of it."""
        if self._ended:
            waiter(None, ShuttingDown())
            return
        self._asked.append(waiter)
        if not self._runs:
            self._begin()

    def end(self) -> None:
        """The daemon stops: nobody is kept waiting, and nothing is put in force any more."""
        self._ended = True
        self._answer([*self._waiting, *self._asked], None, ShuttingDown())

    def _begin(self) -> None:
        self._runs, self._waiting, self._asked = True, self._asked, []
        self._tell(reloading(self._now()))
        self._pool.submit(self._read, self._look)

    def _look(self) -> Fresh:
        """On a thread."""
        config = self._load()
        try:
            return Fresh(config, read(config.tls_cert, config.tls_key), None)
        except CertificateRefused as error:
            return Fresh(config, (None, ()), error)

    def _read(self, fresh: Fresh | None, error: BlazarError | None) -> None:
        if self._ended:
            return
        if error is not None or fresh is None:
            self._over(None, error)
            return
        for warning in fresh.config.warnings:
            log.warning("%s", warning)
        try:
            self._apply(fresh, self._over)
        except BlazarError as refused:
            self._over(None, refused)

    def _over(self, report: Report | None, error: BlazarError | None) -> None:
        if self._ended:
            return
        if report is not None:
            for line in report.lines():
                log.info("reload: %s", line)
            self._publish("config_reloaded", changed=report.changed)
        else:
            log.error("reload: the configuration is refused, and the one from before stays: %s", error)
            self._publish("config_refused", message=str(error))
        self._tell("READY=1\nSTATUS=" + ("the configuration was read again" if report is not None else
                                         "the configuration is refused; the one from before is in force"))
        self._runs = False
        self._answer(self._waiting, report, error)
        if self._asked and not self._ended:
            self._begin()

    def _answer(self, waiters: list[Waiter], report: Report | None, error: BlazarError | None) -> None:
        told = list(waiters)
        waiters.clear()
        for waiter in told:
            waiter(report, error)
