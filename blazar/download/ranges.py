"""One round of a download: lanes that each get a part of the file at a time, in order, so that it can be hashed along.

There is one lane until the first answer shows that the server does ranges and that the file is large; then there are
as many as `connections`. A lane that the server does not want leaves its part to the others.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from blazar.download import answers, space
from blazar.download.answers import Bent, Restart
from blazar.download.claims import Claim, Claims
from blazar.download.partial import Partial
from blazar.download.remote import BREAKS, Answer, Remote
from blazar.download.retry import Patience
from blazar.download.throttle import Bucket
from blazar.errors import BlazarError, DownloadFailed, DownloadLimited
from blazar.units import format_duration

THRESHOLD = 32 * 1024 * 1024
"""Bytes from which on a file comes in several ranges at once."""

SEGMENT = 16 * 1024 * 1024
"""Bytes of one such range."""

SAVE_INTERVAL = 1.0
"""Seconds between two savings of the state: what a kill costs, at most."""

GOODBYE = 2.0
"""Seconds for lanes to notice that they are to end. One that still waits for a server then is left behind."""


@dataclass(frozen=True)
class Wish:
    """What a person wants of a download: the same for all its rounds."""

    size: int | None
    connections: int
    bucket: Bucket | None


class Halted(Exception):
    """The round is over for this lane."""


class Transfer:
    """A round. `start`, then wait for `ended`; then `failure` says whether and why it failed."""

    def __init__(self, remote: Remote, partial: Partial, wish: Wish, patience: Patience, halt: threading.Event,
                 whole: bool) -> None:
        self.ended = threading.Event()
        self.failure: BaseException | None = None
        self._remote, self._partial, self._wish, self._patience, self._halt = remote, partial, wish, patience, halt
        self._whole = whole
        self._claims = Claims(1 if whole else wish.connections)
        self._answers: set[Answer] = set()
        self._threads: list[threading.Thread] = []
        self._checked = False

    def start(self) -> None:
        self._thread(self._keep)
        with self._partial.lock:
            self._lane_more()

    def end(self) -> None:
        """Let everything of this round end, and wait for it."""
        self._halt.set()
        with self._partial.lock:
            for answer in self._answers:
                answer.interrupt()
        deadline = time.monotonic() + GOODBYE
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    # -- lanes -------------------------------------------------------------------------------------------

    def _thread(self, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name=f"download-{len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _lane_more(self) -> None:
        self._claims.lanes += 1
        self._thread(self._lane)

    def _lane(self) -> None:
        try:
            while (claim := self._take()) is not None:
                if not self._get(claim):
                    return
        except Halted:
            pass
        except BaseException as error:
            self._fail(error)
        with self._partial.lock:
            self._claims.lanes -= 1
            if self._claims.lanes == 0:
                self.ended.set()

    def _fail(self, error: BaseException) -> None:
        with self._partial.lock:
            if self.failure is None and not self._halt.is_set():
                self.failure = error
            self._halt.set()
            self.ended.set()

    def _take(self) -> Claim | None:
        with self._partial.lock:
            if self._halt.is_set():
                return None
            state = self._partial.state
            return self._claims.take(state.done, state.size, SEGMENT if self._segmented() else None)

    def _segmented(self) -> bool:
        known = self._partial.state.size
        size = self._wish.size if known is None else known
        return not self._whole and self._wish.connections > 1 and (size is None or size >= THRESHOLD)

    def _get(self, claim: Claim) -> bool:
        """Get all of `claim`; False when it was left to other lanes."""
        while not self._halt.is_set():
            before = claim.start
            try:
                with self._asking(claim) as answer:
                    if answer.status not in (200, 206, 416):
                        if self._leave(claim, for_good=True):
                            return False
                        self._wait_for(answer)
                        continue
                    self._receive(answer, claim)
            except BREAKS as error:
                if self._halt.is_set():
                    break
                if claim.start == before and self._leave(claim, for_good=False):
                    return False
                self._after_a_break(error, claim.start > before)
                continue
            if claim.start == claim.end:
                self._finish(claim)
                return True
            self._after_a_break(None, claim.start > before)
        raise Halted

    def _leave(self, claim: Claim, for_good: bool) -> bool:
        with self._partial.lock:
            return self._claims.leave(claim, for_good)

    def _finish(self, claim: Claim) -> None:
        with self._partial.lock:
            self._claims.finish(claim)
            if self._segmented() and self._claims.lanes < self._claims.wanted:
                self._lane_more()

    # -- one request -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _asking(self, claim: Claim) -> Iterator[Answer]:
        state = self._partial.state
        plain = self._whole or (claim.start == 0 and claim.end == state.size)
        headers = {}
        if not plain:
            last = "" if claim.end in (None, state.size) else str((claim.end or 0) - 1)
            headers["Range"] = f"bytes={claim.start}-{last}"
            if state.validator and not state.validator.startswith("W/"):
                headers["If-Range"] = state.validator
        answer = self._remote.get(headers)
        with self._partial.lock:
            self._answers.add(answer)
        try:
            if self._halt.is_set():
                raise Halted
            refusal = None if answer.status in (200, 206, 416) else self._remote.refusal(answer)
            if refusal is not None:
                raise refusal
            yield answer
        finally:
            with self._partial.lock:
                self._answers.discard(answer)
            answer.close()

    def _receive(self, answer: Answer, claim: Claim) -> None:
        """Put the body of `answer` where it belongs, as far as it is ours."""
        end = self._judge(answer, claim)
        for block in answer.blocks() if claim.start != end else ():
            block = block if end is None else block[:end - claim.start]
            if self._wish.bucket is not None:
                self._wish.bucket.take(len(block), self._halt.wait)
            if end is None and self._partial.state.is_vague:
                space.require_reserve(self._partial.target.parent, claim.start)
            self._put(claim, block)
            if not self._whole:
                self._patience.came()
            if claim.start == end:
                return
            if end is None and self._wish.size is not None and claim.start > self._wish.size:
                break
        if end is None:
            self._learn(claim.start, answer)
            claim.end = claim.start

    def _put(self, claim: Claim, block: bytes) -> None:
        """Write `block`, unless the round is over: the partial may be another round's by then."""
        with self._partial.lock:
            if self._halt.is_set():
                raise Halted
            self._partial.write(claim.start, block)
            claim.start += len(block)

    def _judge(self, answer: Answer, claim: Claim) -> int | None:
        """Where the body ends in the file. Raises Restart when it is not for `claim`."""
        state = self._partial.state
        try:
            reading = answers.read(answer, claim, state.size)
        except Bent as bent:
            if not self._whole:
                raise Restart(whole=True) from bent
            raise DownloadFailed(url=self._remote.shown, reason=f"the server contradicts itself: {bent}",
                                 remedy="tell whoever runs it, or get the file elsewhere") from bent
        if reading is None:
            raise Restart(whole=not self._differs(answer), changed=self._differs(answer))
        if reading.whole:
            with self._partial.lock:
                if self._claims.lanes > 1 or state.done.total:
                    raise Restart(whole=True)
                continuable = claim.end == state.size and (answer.validator or state.sha256)
                self._whole = self._whole or not continuable
                claim.end = reading.end
        if reading.size is not None:
            self._learn(reading.size, answer)
            claim.end = reading.size if claim.end is None else min(claim.end, reading.size)
        return reading.end

    def _differs(self, answer: Answer) -> bool:
        known = self._partial.state.validator
        return None not in (known, answer.validator) and known != answer.validator

    def _learn(self, size: int, answer: Answer) -> None:
        """Take in the size and version that an answer tells; with the first one, see whether it can be had at all."""
        with self._partial.lock:
            state = self._partial.state
            if self._wish.size not in (None, size):
                raise DownloadFailed(url=self._remote.shown, reason=f"the file there has {size} bytes, and "
                                     f"{self._wish.size} were expected", remedy="see that it is the right file")
            if self._differs(answer) or state.size not in (None, size):
                raise Restart(whole=False, changed=True)
            state.size, state.validator = size, state.validator or answer.validator
            if self._checked:
                return
            self._checked = True
            if not (self._whole or state.validator or state.sha256):
                raise Restart(whole=True)
            space.require(self._partial.target.parent, size - state.done.total)
            if self._segmented():
                parts = -(-(size - state.done.total) // SEGMENT)
                while self._claims.lanes < min(self._claims.wanted, parts):
                    self._lane_more()

    # -- failures and time -------------------------------------------------------------------------------

    def _after_a_break(self, error: Exception | None, progressed: bool) -> None:
        """Wait before the next try. Raises what the person is told when there were enough."""
        if not self._patience.again(at_once=progressed and not self._whole):
            reason = f"the connection breaks again and again ({error or 'it ended early'})"
            raise DownloadFailed(url=self._remote.shown, reason=reason,
                                 remedy="what has come is kept, try again when the network or the server is well")
        if self._whole and progressed:
            raise Restart(whole=True)

    def _wait_for(self, answer: Answer) -> None:
        """A server that is busy or broken: wait as it says, or as long as we think fit."""
        code, after = answer.status, answer.retry_after
        if self._patience.again(at_once=False) if after is None else self._patience.pause(after):
            return
        if code in (429, 503):
            pause = "" if after is None else f" of {format_duration(after)}"
            raise DownloadLimited(url=self._remote.shown, code=code, pause=pause, retry_after=after)
        raise DownloadFailed(url=self._remote.shown, reason=f"the server answers with an error of its own ({code})",
                             remedy="what has come is kept, try again later")

    def _keep(self) -> None:
        """Save the state now and then, and see that the disk still has room."""
        try:
            while not self.ended.wait(SAVE_INTERVAL) and not self._halt.is_set():
                self._partial.save()
                state = self._partial.state
                if state.size is not None:
                    space.require(self._partial.target.parent, state.size - state.done.total)
        except BlazarError as error:
            self._fail(error)
