"""`Certificate`: the pair of `tls_cert` and `tls_key` with which clients are received, renewed when its files change.

The supervisor reads both files and tells the gateway workers what they held, so that no worker ever sees a pair that
does not fit. What cannot be used changes nothing: new connections get what was read last.
"""

import logging
import os

from blazar.errors import BlazarError
from blazar.supervisor.loop import Loop
from blazar.supervisor.pool import Pool
from blazar.supervisor.workers import Workers
from blazar.tls import Pair, read_pair

log = logging.getLogger(__name__)

LOOK = 60.0
"""Seconds between two looks at the files."""

Stamps = tuple[tuple[int, ...], ...]
Found = tuple[Pair | None, Stamps]
"""A pair, and how its files looked just before they were read."""


class Certificate:
    """Used on the loop's thread. Without `cert` clients come without TLS. Raises CertificateRefused."""

    def __init__(self, loop: Loop, pool: Pool, workers: Workers, cert: str, key: str) -> None:
        self._loop = loop
        self._pool = pool
        self._workers = workers
        self._pair, self._seen = read(cert, key)
        self._trouble = ""

    @property
    def scheme(self) -> str:
        return "http" if self._pair is None else "https"

    @property
    def found(self) -> Found:
        """The pair with which new connections are received."""
        return self._pair, self._seen

    def told(self) -> dict[str, str] | None:
        """What a gateway worker is told of it."""
        return None if self._pair is None else {"chain": self._pair.chain, "secret": self._pair.secret}

    def watch(self) -> None:
        """Look now, and again and again, whether the files are others."""
        self._loop.later(LOOK, self.watch)
        pair = self._pair
        if pair is not None:
            self._pool.submit(self._looked, self._look, pair, self._seen, bool(self._trouble))

    def take(self, found: Found) -> str:
        """Receive new connections with this pair; whether it is `new` (another one) or `kept`."""
        pair, seen = found
        before, self._pair, self._seen, self._trouble = self._pair, pair, seen, ""
        if pair is None or (before is not None and (before.chain, before.secret) == (pair.chain, pair.secret)):
            return "kept"
        self._workers.note("certificate", certificate=self.told())
        log.info("tls_cert %s was read again: new connections get it", pair.cert)
        return "new"

    def refuse(self, error: BlazarError) -> None:
        """Say, once, why the files cannot be used."""
        if error.message != self._trouble:
            log.warning("%s; new connections get the certificate from before", error.message)
        self._trouble = error.message

    @staticmethod
    def _look(pair: Pair, seen: Stamps, again: bool) -> Found:
        """On a thread: the pair if the files have changed since, or could not be used then."""
        return read(pair.cert, pair.key) if again or stamps(pair.cert, pair.key) != seen else (None, seen)

    def _looked(self, found: Found | None, error: BlazarError | None) -> None:
        before = self._pair
        if error is not None or found is None:
            self.refuse(error or BlazarError("the certificate was not read"))
            return
        pair, _ = found
        if pair is not None and before is not None and (pair.cert, pair.key) == (before.cert, before.key):
            self.take(found)


def read(cert: str, key: str) -> Found:
    """The pair in these files, if it can be used; None without files. Raises CertificateRefused."""
    if not cert:
        return None, ()
    seen = stamps(cert, key)  # before they are read: what changes meanwhile is then read once more
    pair = read_pair(cert, key)
    pair.context()
    return pair, seen


def stamps(cert: str, key: str) -> Stamps:
    """What changes with the content of the files."""
    return _stamp(cert), _stamp(key)


def _stamp(file: str) -> tuple[int, ...]:
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
