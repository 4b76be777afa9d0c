"""Which of a model's children is best for a request: the one that has read the beginning of its prompt before.

The order depends on that beginning alone (rendezvous hashing), so every request of a conversation has the same, and
with one child more or less most conversations keep theirs.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

ENOUGH = 2048
"""Characters of a prompt's beginning that count."""


def prefix_of(payload: Mapping[str, Any], body: bytes) -> str:
    """What does not change while a conversation grows: its system text and its first turn, or the prompt's beginning.

    `payload` may lack the fields of a large `body`, of which then the first bytes of the messages count.
    """
    turns = payload.get("messages")
    if isinstance(turns, list) and turns:
        opening = 2 if isinstance(turns[0], dict) and turns[0].get("role") in ("system", "developer") else 1
        return str((payload.get("system"), payload.get("tools"), turns[:opening]))[:ENOUGH]
    for field in ("prompt", "input"):
        if payload.get(field):
            return str((payload.get("system"), payload[field]))[:ENOUGH]
    start = max(body.find(b'"messages"', 0, 1 << 20), 0)
    return body[start:start + ENOUGH].decode("latin-1")


def order(prefix: str, children: int) -> list[int]:
    """The numbers 1 to `children`, the best one first."""
    return sorted(range(1, children + 1),
                  key=lambda number: blake2b(f"{number} {prefix}".encode(errors="replace"), digest_size=8).digest())
