"""Which waiting model may start now, who goes for it, and who is refused. Pure: same snapshot, same answer.

Each waiting model has a best plan: that for a machine on which only pinned models stay. It starts as soon as a plan
that is in nothing worse fits beside all that is there. Until then whoever has to go for it is sent away, and what it
will take is kept for it, so that one that came later takes its room neither now nor when the victims have gone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from blazar.planner.need import Offer
from blazar.planner.plan import Refusal
from blazar.planner.room import Held, Room, room_beside
from blazar.supervisor.actions import Action, Evict, Refuse, Start, Wake
from blazar.supervisor.policies import evict
from blazar.supervisor.snapshot import ChildView, Snapshot
from blazar.supervisor.states import LIVE, State
from blazar.transport import model_at

FULL = "all places of max_loaded_models ({limit}) hold models that are pinned; raise it, or take `pin` from one of them"
PINNED = "{other} is pinned, and {why}; take `pin` from it, or change that in [model_overrides]"
LOOK_AGAIN = 0.2
"""Seconds between two looks for memory that has to come back."""

NO_ROOM = "there is no room for it now, and what is loaded ahead of requests makes no other model go"


def decide(now: float, snapshot: Snapshot, max_loaded: int) -> list[Action]:
    """What is to be done for the waiting models, the oldest first; `max_loaded` is their number at most, 0 = any."""
    actions: list[Action] = []
    scene = Scene(snapshot, max_loaded)
    for child in sorted((one for one in snapshot.children if one.state is State.QUEUED), key=lambda one: one.asked_at):
        if child.not_before > now:
            actions.append(Refuse(child.place, NO_ROOM) if child.is_spare else Wake(child.not_before - now))
        elif child.offer is not None:
            actions += _place_spare(scene, child) if child.is_spare else _place(now, scene, child)
    return actions


@dataclass
class Scene:
    """The children that there are, and what was decided of them so far."""

    snapshot: Snapshot
    limit: int
    started: list[ChildView] = field(default_factory=list)
    waiting: list[ChildView] = field(default_factory=list)
    """Those that start later, with what they will take."""
    going: set[str] = field(default_factory=set)
    blocked: bool = False
    """Whether somebody waits for what cannot be sent away yet: all but pinned models may have to go for it later."""

    def __post_init__(self) -> None:
        self.live = [child for child in self.snapshot.children if child.state in LIVE]
        self.going = {child.place for child in self.live if child.state in (State.DRAINING, State.STOPPING)}
        self.pins = [child for child in self.live if child.pinned and child.place not in self.going]

    def now(self, child: ChildView) -> Offer | None:
        """What `child` can have at once, beside everything there is and without harm to those who came before."""
        stay = self.pins if self.blocked else self._staying(self.going)
        if not (self._allows(child, [*self.live, *self.started]) and self._allows(child, [*stay, *self.started,
                                                                                          *self.waiting])):
            return None
        room = room_beside(self.snapshot.memory.now, _held(self.live), _held(self.started))
        return _offered(child, room.least(self._room(stay)))

    def later(self, child: ChildView, victims: Iterable[str]) -> Offer | None:
        """What it can have once the `victims` have gone too."""
        stay = self._staying({*self.going, *victims})
        return _offered(child, self._room(stay)) if self._allows(child, [*stay, *self.started, *self.waiting]) else None

    def best(self, child: ChildView) -> Offer | Refusal:
        """What it could ever have: only what is pinned stays."""
        assert child.offer is not None
        gone = [one for one in self.live if one not in self.pins]
        return child.offer(room_beside(self.snapshot.memory.soon, _held(self.pins), going=_held(gone)))

    def without(self, place: str) -> Room:
        """What there would be for the child of that place if it came anew, and nobody went for it."""
        return self._room(self._staying({*self.going, place}))

    def _staying(self, going: set[str]) -> list[ChildView]:
        return [child for child in self.live if child.place not in going]

    def _room(self, stay: Sequence[ChildView]) -> Room:
        gone = [child for child in self.live if child not in stay]
        return room_beside(self.snapshot.memory.soon, _held(stay), _held([*self.started, *self.waiting]), _held(gone))

    def _allows(self, child: ChildView, others: Sequence[ChildView]) -> bool:
        return not (self.limit and len(others) >= self.limit) and not any(quarrel(child, other) for other in others)


def quarrel(child: ChildView, other: ChildView) -> str:
    """Why the two may not be loaded together; empty when they may. Children of one model always may."""
    if model_at(child.place) == model_at(other.place):
        return ""
    if child.group and child.group == other.group:
        return f"both are of the group {child.group!r}, of which one is loaded at a time"
    lone = next((one for one in (child, other) if one.exclusive), None)
    return f"{model_at(lone.place)} is exclusive, so nothing else is loaded beside it" if lone else ""


def _place(now: float, scene: Scene, child: ChildView) -> list[Action]:
    best = scene.best(child)
    refusal = _refusal(scene, child, best)
    if refusal is not None:
        return [Refuse(child.place, refusal)]
    assert isinstance(best, Offer)
    offer = scene.now(child)
    if offer and offer.serves(best):
        scene.started.append(replace(child, held=offer.held))
        return [Start(child.place, offer)]

    def enough(victims: Iterable[str]) -> bool:
        found = scene.later(child, victims)
        return found is not None and found.serves(best)

    victims = [] if enough(()) else evict.choose(
        [one for one in scene.live if one.place not in scene.going],
        {one.place for one in scene.live if quarrel(child, one)}, enough)
    if victims is None:
        scene.blocked = True
        scene.waiting.append(replace(child, held=best.held))
        return []
    scene.going |= {victim.place for victim in victims}
    later = scene.later(child, ())
    scene.waiting.append(replace(child, held=later.held if later else best.held))
    actions: list[Action] = [_sent_away(now, victim, child) for victim in victims]
    return actions or ([Wake(LOOK_AGAIN)] if scene.snapshot.memory.late else [])


def _place_spare(scene: Scene, child: ChildView) -> list[Action]:
    """One for which nobody waits makes nobody go, and gets nothing worse than it would have alone."""
    best, offer = scene.best(child), scene.now(child)
    if isinstance(best, Refusal):
        return [Refuse(child.place, best)]
    if offer is None or not offer.serves(best):
        later = scene.later(child, ()) if scene.snapshot.memory.late else None
        return [Wake(LOOK_AGAIN) if later and later.serves(best) else Refuse(child.place, NO_ROOM)]
    scene.started.append(replace(child, held=offer.held))
    return [Start(child.place, offer)]


def _refusal(scene: Scene, child: ChildView, best: Offer | Refusal) -> str | Refusal | None:
    """Why nothing that may be done ever lets it load."""
    for pin in scene.pins:
        why = quarrel(child, pin)
        if why:
            return PINNED.format(other=model_at(pin.place), why=why)
    if scene.limit and len(scene.pins) >= scene.limit:
        return FULL.format(limit=scene.limit)
    if isinstance(best, Refusal) and scene.pins:
        names = " or ".join(sorted({model_at(pin.place) for pin in scene.pins}))
        return replace(best, levers=(f"take `pin` from {names}", *best.levers))
    return best if isinstance(best, Refusal) else None


def _sent_away(now: float, victim: ChildView, child: ChildView) -> Action:
    young = victim.ready_at + evict.RESIDENCE - now
    return Wake(young) if young > 0 else Evict(victim.place, f"room for {child.place}")


def _offered(child: ChildView, room: Room) -> Offer | None:
    assert child.offer is not None
    found = child.offer(room)
    return found if isinstance(found, Offer) else None


def _held(children: Iterable[ChildView]) -> list[Held]:
    return [child.held for child in children]
