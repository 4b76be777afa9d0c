"""`take_rows`: the lists of numbers in an answer, handed on as they come, so that the whole is never held."""

from collections.abc import Callable, Iterable

from blazar.errors import ChildFailed
from blazar.proxy.json import BadJson, loads
from blazar.proxy.vectors import is_vector

MAX_ROW = 1 << 20
"""Bytes of the longest list of numbers."""

Take = Callable[[list[float]], None]


def take_rows(pieces: Iterable[bytes], model: str, take: Take) -> None:
    """`take` gets each innermost list of the JSON whose `pieces` a child of `model` sends. Raises ChildFailed when one
    is no vector."""
    rest = bytearray()
    for piece in pieces:
        rest += piece
        if b"]" in piece:
            *rows, last = bytes(rest).split(b"]")
            rest = bytearray(last)
            for row in rows:
                _take_row(row, model, take)
        if len(rest) > MAX_ROW:
            raise ChildFailed(model=model, reason="its answer is not lists of numbers")


def _take_row(text: bytes, model: str, take: Take) -> None:
    """Hand on the list that ends where `text` does, if one begins in it."""
    begins = text.rfind(b"[")
    if begins < 0:
        return
    try:
        row = loads(text[begins:] + b"]")
    except BadJson as error:
        raise ChildFailed(model=model, reason=f"its answer is not usable JSON: {error}") from error
    if not is_vector(row):
        raise ChildFailed(model=model, reason="a vector of its answer is empty, or not a list of numbers")
    take(row)
