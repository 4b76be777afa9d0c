"""`fetch`: a URL becomes a file, whole and verified, or a partial that the next try continues."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from blazar.download.answers import Restart
from blazar.download.checksum import Digest, sha256_of
from blazar.download.partial import Partial, State, part_of, state_of, try_claim
from blazar.download.ranges import Transfer, Wish
from blazar.download.remote import Remote
from blazar.download.retry import Patience
from blazar.download.space import unwritable
from blazar.download.throttle import Bucket
from blazar.errors import BlazarError, DigestMismatch, DiskFull, DownloadChanged, DownloadStopped

Progress = Callable[[str, int, int | None], None]
"""Called with the stage ("download" or "verify"), bytes done, and bytes in all when known."""

CONNECTIONS = 8
RESTARTS = 8
"""How often one download may begin anew; the later half in one stream, since servers behind one name may disagree."""

TICK = 0.1
"""Seconds between two calls of a Progress."""


def silent(stage: str, done: int, total: int | None) -> None:
    """A Progress that tells nobody."""


@dataclass(frozen=True)
class Source:
    """What to get, and what is known of it beforehand."""

    url: str
    sha256: str | None = None
    """64 hex digits."""
    size: int | None = None
    """Bytes."""
    token: str | None = None
    """A bearer token for the origin of `url` alone."""


@dataclass(frozen=True)
class Fetched:
    path: Path
    sha256: str
    size: int


def fetch(source: Source, target: Path, progress: Progress = silent, *, connections: int = CONNECTIONS,
          bucket: Bucket | None = None, stop: threading.Event | None = None,
          patience: Patience | None = None) -> Fetched:
    """Get `source` into the file `target`, whose folder exists.

    The bytes gather in `<target>.part`. Whoever asks for the same target meanwhile follows this download; after an
    error, a kill, or when `stop` is set, the next call goes on from there. Raises BlazarError with the reason;
    KeyboardInterrupt passes through. `target` appears only when it is whole, verified and on the disk.
    """
    stop = stop or threading.Event()
    remote = Remote(source.url, source.token, connections)
    with contextlib.closing(remote):
        with _claimed(remote.shown, target, progress, stop) as (partial, followed):
            present = _present(source, target, followed)
            if present is not None:
                partial.discard()
                return present
            return _Download(source, remote, partial, progress, connections, bucket, stop, patience).run()


@contextlib.contextmanager
def _claimed(url: str, target: Path, progress: Progress, stop: threading.Event) -> Iterator[tuple[Partial, bool]]:
    """The partial of `target`, ours, and whether we had to follow somebody else's download of it first."""
    followed = False
    try:
        while (partial := try_claim(target)) is None:
            followed = True
            state = State.read(state_of(target), _size(part_of(target)))
            progress("download", state.done.total, state.size)
            if stop.wait(TICK):
                raise DownloadStopped(url=url)
    except OSError as error:
        raise unwritable(error, target) from error
    with contextlib.closing(partial):
        yield partial, followed


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _present(source: Source, target: Path, followed: bool) -> Fetched | None:
    """`target` when it is there already: known by its digest, or just made by the download that we followed."""
    wanted = source.sha256.lower() if source.sha256 else None
    if not target.is_file() or not (wanted or followed) or source.size not in (None, target.stat().st_size):
        return None
    found = sha256_of(target)
    return Fetched(target, found, target.stat().st_size) if wanted in (None, found) else None


class _Download:
    """One call of `fetch` that holds the partial."""

    def __init__(self, source: Source, remote: Remote, partial: Partial, progress: Progress, connections: int,
                 bucket: Bucket | None, stop: threading.Event, patience: Patience | None) -> None:
        self._remote, self._partial, self._progress, self._stop = remote, partial, progress, stop
        self._sha256 = source.sha256.lower() if source.sha256 else None
        self._wish = Wish(source.size, max(1, connections), bucket)
        self._halt = threading.Event()
        self._patience = patience or Patience(self._rest)
        self._adopt_state()

    def run(self) -> Fetched:
        digest = self._digest()
        if self._sha256 not in (None, digest) and self._partial.kept:
            # What an earlier process left may be what is wrong.
            self._partial.restart()
            digest = self._digest()
        if self._sha256 not in (None, digest):
            self._partial.discard()
            raise DigestMismatch(path=f"what came from {self._remote.shown}", found=digest, expected=self._sha256)
        size = self._partial.state.size or 0
        self._partial.place()
        return Fetched(self._partial.target, digest, size)

    def _adopt_state(self) -> None:
        """Keep what is there if it is of the same file; otherwise begin anew."""
        state = self._partial.state
        same = state.sha256 == self._sha256 if self._sha256 and state.sha256 else state.url == self._remote.shown
        if not same or not (self._sha256 or state.validator) or self._wish.size not in (None, state.size):
            self._partial.restart()
        state = self._partial.state
        state.url, state.sha256 = self._remote.shown, self._sha256
        if not self._sha256 and state.size:
            # Nothing but the server can say whether this is still the file: leave it a byte to say it with.
            state.done = state.done.clip(state.size - 1)

    def _digest(self) -> str:
        """Get what is missing, in as many rounds as it takes, and return the sha256 of the whole."""
        whole = False
        for count in range(1, RESTARTS + 1):
            try:
                return self._round(whole)
            except Restart as restart:
                self._partial.restart()
                whole = restart.whole or count >= RESTARTS // 2
            except DiskFull:
                if self._partial.state.is_vague:  # perhaps without end: it must not lie there and fill the disk
                    self._partial.discard()
                raise
        self._partial.discard()
        raise DownloadChanged(url=self._remote.shown, reason="it changes on the server while it comes",
                              remedy="try again later")

    def _round(self, whole: bool) -> str:
        self._halt = threading.Event()
        transfer = Transfer(self._remote, self._partial, self._wish, self._patience, self._halt, whole)
        digest = Digest(self._partial)
        digest.start()
        try:
            self._partial.save()
            transfer.start()
            while not transfer.ended.wait(TICK):
                self._tell("download", self._partial.state.done.total)
            if transfer.failure is not None:
                raise transfer.failure
            self._tell("download", self._partial.state.done.total)
            digest.end()
            while digest.is_alive():
                self._tell("verify", digest.hashed)
                digest.join(TICK)
            self._tell("verify", digest.hashed)
            return digest.result()
        finally:
            transfer.end()
            digest.abandon()
            with contextlib.suppress(BlazarError):
                self._partial.save()

    def _rest(self, seconds: float) -> None:
        self._halt.wait(seconds)

    def _tell(self, stage: str, done: int) -> None:
        self._progress(stage, done, self._partial.state.size)
        if self._stop.is_set():
            raise DownloadStopped(url=self._remote.shown)
