"""Banks: when a child's slots are saved beside its evictions, which banks hold for a child, and which have to go."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from blazar.supervisor.actions import Save
from blazar.supervisor.snapshot import Snapshot
from blazar.supervisor.states import State

LARGEST = 512 * 1024**2
"""Bytes a bank may have; a larger one takes longer to write and read than its prompts take to be read again."""
ALL_TOGETHER = 4 * 1024**3
"""Bytes all banks may have together."""
DISK_LEFT = 1024**3
"""Bytes that saving leaves free on the disk."""
TOLD = {"digest": "another file of the model", "build": "another engine build", "ctx": "another context",
        "projector": "another projector", "cache_type_k": "another type of KV cache",
        "cache_type_v": "another type of KV cache", "flags": "other flags"}
"""What it means that a bank and a child differ in a field of their origin."""


@dataclass(frozen=True)
class BankView:
    """One bank on the disk; its time is in seconds since the epoch."""

    name: str
    size: int
    saved_at: float


def decide(now: float, snapshot: Snapshot) -> list[Save]:
    """Save what an engine would lose by falling asleep: half way there, and once for each time it was used."""
    return [Save(child.place) for child in snapshot.children
            if child.state is State.READY and child.sleeps_after and not child.in_flight
            and child.last_used > child.saved_at and now - child.last_used >= child.sleeps_after / 2]


def difference(bank: Mapping[str, object], child: Mapping[str, object]) -> str:
    """Why a bank of one origin is nothing for a child of another; empty when it is. What was read without a projector
    is the same with one."""
    return next((words for field, words in TOLD.items()
                 if bank.get(field) != child.get(field) and (bank.get(field) or field != "projector")), "")


def refusal(size: int, free: int) -> str:
    """Why a bank of `size` bytes is not to be written where `free` bytes are free; empty when it is."""
    if size > LARGEST:
        return f"it is larger than {LARGEST // 1024**2} MiB"
    return "the disk is nearly full" if size + DISK_LEFT > free else ""


def surplus(banks: Iterable[BankView], now: float, keep: float, limit: int = ALL_TOGETHER) -> list[str]:
    """The banks that go when all together have more than `limit` bytes, the oldest first.

    For `keep` seconds after it was saved a bank is pinned. When pinned ones alone are too many, the newest go: a
    conversation that was promised its place keeps it.
    """
    every = list(banks)
    pinned = [bank for bank in every if bank.saved_at <= now < bank.saved_at + keep]
    order = sorted((bank for bank in every if bank not in pinned), key=lambda bank: bank.saved_at)
    order += sorted(pinned, key=lambda bank: -bank.saved_at)
    total = sum(bank.size for bank in every)
    gone = []
    for bank in order:
        if total <= limit:
            break
        total -= bank.size
        gone.append(bank.name)
    return gone
