"""Which parts of a file the lanes of a round are getting, and how many lanes there are. Pure; one caller at a time."""

from dataclasses import dataclass

from blazar.download.remote import LARGEST
from blazar.download.spans import Spans


@dataclass(eq=False)
class Claim:
    """The part of the file that one lane gets; `start` moves on as bytes come. `end` None = the file's end."""

    start: int
    end: int | None


class Claims:
    """The claims of a round. `wanted` lanes are as many as the server is thought to bear."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.lanes = 0
        self._claims: list[Claim] = []

    def take(self, done: Spans, size: int | None, segment: int | None) -> Claim | None:
        """The next part that is neither there nor claimed, `segment` bytes at most; None when there is none."""
        start, end = Spans([*done, *((claim.start, claim.end or LARGEST) for claim in self._claims)]).gap()
        if start >= (LARGEST if size is None else size):
            return None
        if size is not None:
            end = min(end or size, size)
        if segment is not None:
            end = min(end or LARGEST, start + segment)
        claim = Claim(start, end)
        self._claims.append(claim)
        return claim

    def finish(self, claim: Claim) -> None:
        self._claims.remove(claim)

    def leave(self, claim: Claim, for_good: bool) -> bool:
        """A lane ends and leaves its part to the others; False when it is the last. `for_good` = none follows it."""
        if self.lanes == 1:
            return False
        self._claims.remove(claim)
        self.lanes -= 1
        if for_good:
            self.wanted = self.lanes
        return True
