"""What deciders may ask for; the fleet carries it out."""

from dataclasses import dataclass, field

from blazar.planner.need import Offer
from blazar.planner.plan import Refusal


@dataclass(frozen=True)
class Start:
    place: str
    offer: Offer = field(compare=False)


@dataclass(frozen=True)
class Evict:
    """Drain the model's child at every worker, then stop it."""

    place: str
    why: str
    reason: str = field(default="room", compare=False)
    """The same as a word that can be counted; see EVENTS."""


@dataclass(frozen=True)
class Refuse:
    """Tell those who wait for this child that it will not come."""

    place: str
    why: str | Refusal


@dataclass(frozen=True)
class Save:
    """Save the child's slots; it goes on serving."""

    place: str


@dataclass(frozen=True)
class Wake:
    """Nothing to do now; decide again after so many seconds."""

    seconds: float


Action = Start | Evict | Refuse | Save | Wake
