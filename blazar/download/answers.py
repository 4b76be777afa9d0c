"""What an answer to a request for a part of a file amounts to, by RFC 9110 and with suspicion. Pure."""

from dataclasses import dataclass

from blazar.download.claims import Claim
from blazar.download.remote import Answer


class Restart(Exception):
    """What has come cannot be continued. `whole` = ask for no ranges any more; `changed` = it is another file now."""

    def __init__(self, whole: bool, changed: bool = False) -> None:
        super().__init__("changed" if changed else "no ranges")
        self.whole = whole
        self.changed = changed


class Bent(Exception):
    """The answer contradicts itself or the request; the message is the reason, for people."""


@dataclass(frozen=True)
class Reading:
    """How to read a body: where it ends in the file (None = where it ends), and the size of the whole file."""

    end: int | None
    size: int | None
    whole: bool
    """It is the whole file from its beginning, whatever was asked for."""


def read(answer: Answer, claim: Claim, size: int | None) -> Reading | None:
    """What the body of a 200, 206 or 416 is, for a request of `claim`, of a file of `size` if that is known.

    None = it is something else than was asked for, though not nonsense. Raises Bent for nonsense.
    """
    if answer.status == 206:
        return _part(answer, claim)
    if answer.status == 200:
        return _whole(answer, claim)
    place = answer.range
    if place is None or place.size is None or place.size != claim.start or size not in (None, place.size):
        raise Bent("it has no such range of bytes (416)")
    return Reading(place.size, place.size, whole=False)


def _part(answer: Answer, claim: Claim) -> Reading:
    place = answer.range
    if place is None or place.start is None or place.end is None or place.size is None:
        raise Bent("it sends a part and does not say which")
    if place.start != claim.start:
        raise Bent(f"it sends a part from byte {place.start} on instead of {claim.start}")
    if answer.length is not None and answer.length > place.end - place.start:
        raise Bent("it sends a part that is longer than it says")
    return Reading(place.end if claim.end is None else min(place.end, claim.end), place.size, whole=False)


def _whole(answer: Answer, claim: Claim) -> Reading | None:
    place = answer.range
    if answer.has_range and (place is None or place.start != 0 or not place.end == place.size == answer.length):
        raise Bent("it calls a part of the file the whole")
    return Reading(answer.length, answer.length, whole=True) if claim.start == 0 else None
