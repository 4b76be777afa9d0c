"""sha256 of a file, computed while it still comes."""

import hashlib
import threading
from pathlib import Path

from blazar.download.partial import Partial
from blazar.download.space import unwritable

BLOCK = 1024 * 1024


class Digest(threading.Thread):
    """Follows the bytes that are there without a hole, from the first one on; they are still in memory mostly."""

    def __init__(self, partial: Partial) -> None:
        super().__init__(name="download-digest", daemon=True)
        self.hashed = 0
        """Bytes taken in so far."""
        self._partial = partial
        self._sha256 = hashlib.sha256()
        self._ended = self._abandoned = False
        self._failure: OSError | None = None

    def run(self) -> None:
        try:
            while count := self._there():
                block = self._partial.read(self.hashed, min(BLOCK, count))
                self._sha256.update(block)
                self.hashed += len(block)
        except OSError as error:
            self._failure = error

    def end(self) -> None:
        """Stop once all that is there has been taken in."""
        with self._partial.lock:
            self._ended = True
            self._partial.lock.notify_all()

    def abandon(self) -> None:
        """Stop now."""
        self._abandoned = True
        self.end()
        self.join()

    def result(self) -> str:
        """The digest in hex, after the end. Raises StoreUnwritable when the file could not be read."""
        self.join()
        if self._failure is not None:
            raise unwritable(self._failure, self._partial.target) from self._failure
        return self._sha256.hexdigest()

    def _there(self) -> int:
        """How many more bytes can be read now, after waiting for some; 0 at the end."""
        with self._partial.lock:
            while (count := self._partial.state.done.frontier - self.hashed) <= 0 and not self._ended:
                self._partial.lock.wait()
            return 0 if self._abandoned else count


def sha256_of(path: Path) -> str:
    """The digest of a whole file, in hex."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
