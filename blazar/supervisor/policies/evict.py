"""Who makes room for a waiting model. Pure."""

from collections.abc import Callable, Sequence, Set

from blazar.supervisor.snapshot import ChildView
from blazar.supervisor.states import State

RESIDENCE = 0.5
"""Seconds a child stays at least, so that those who waited for it get their turn when two models alternate."""


def choose(children: Sequence[ChildView], must: Set[str], enough: Callable[[Set[str]], bool]) -> list[ChildView] | None:
    """The victims, by whose end it is `enough`, the first to go first; None when even all together are not.

    Idle ones go before busy ones, then those of lower cost, then the least recently used; as many as it takes. Of
    these one that turns out not to be needed stays, the most valuable first. Pinned ones stay, and what `must` go for
    another reason than room goes in any case.
    """
    ready = sorted((child for child in children if child.state is State.READY and not child.pinned), key=_worth)
    chosen = [child for child in ready if child.place in must]
    for child in ready:
        if enough({one.place for one in chosen}):
            break
        if child not in chosen:
            chosen.append(child)
    if not enough({one.place for one in chosen}):
        return None
    for child in sorted(chosen, key=_worth, reverse=True):
        fewer = {one.place for one in chosen if one is not child}
        if child.place not in must and enough(fewer):
            chosen.remove(child)
    return sorted(chosen, key=_worth)


def _worth(child: ChildView) -> tuple[bool, int, float]:
    return child.in_flight > 0, child.cost, max(child.last_used, child.ready_at)
