"""What a child works with: `Weighed`, known before it may start; `Prepared`, its one load; `Means`, common to all."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blazar.engines.lane import Command, Lane, Launch
from blazar.engines.program import Program
from blazar.errors import BlazarError
from blazar.hardware.census import Census
from blazar.paths import Paths
from blazar.planner.many import ManyNeeds
from blazar.planner.need import Need
from blazar.planner.plan import Plan
from blazar.supervisor.banks import Bank
from blazar.supervisor.loop import Loop
from blazar.supervisor.pool import Pool
from blazar.transport import Endpoint

Waiter = Callable[[Endpoint | None, BlazarError | None], None]
"""Told of a ready child, or why there is none."""


@dataclass(frozen=True)
class Prepared:
    """What the loader worked out for one load."""

    launch: Launch
    lane: Lane
    command: Command
    size: int
    """Bytes of the model's file."""
    limit: float
    """Seconds the load may take."""
    socket: Path | None = None
    """Where the child shall listen; None for a port."""
    fork: str | None = None
    """A lane of the catalog for the model's architecture, which is not installed."""
    files: tuple[Path, ...] = ()
    """The files that hold its weights."""
    bank: Bank | None = None
    """Where its slots are kept between its lives."""
    serves: Mapping[str, "Prepared"] = field(default_factory=dict)
    """How each model of a router is loaded."""

    @property
    def taken(self) -> int:
        """Bytes that it takes of all memories."""
        return self.launch.plan.total if self.launch.plan else self.size

    @property
    def on_cards(self) -> int:
        return self.launch.plan.on_cards if self.launch.plan else 0


@dataclass(frozen=True)
class Weighed:
    """What is known of a model before it is decided when and how it is loaded."""

    need: Need | ManyNeeds
    settings: Mapping[str, Any]
    program: Program
    digest: str
    prepare: Callable[[Plan], Prepared]
    """The rest of the work. Runs on a thread; raises BlazarError."""
    sketch: Callable[[Plan], Hashable]
    """How its process would be started, for comparing; writes nothing. Runs on a thread; raises BlazarError."""


@dataclass(frozen=True)
class Means:
    """What every child works with."""

    loop: Loop
    pool: Pool
    paths: Paths
    weigh: Callable[[str], Weighed]
    """By the child's place. Runs on a thread; raises BlazarError."""
    look: Callable[[], Census]
    """How much memory is free now. Runs on a thread."""
    changed: Callable[[], None]
    """Told after every change of state."""
    forget: Callable[[Mapping[str, str]], None]
    """Deletes saved slots that are of no use, by the digests of the installed models. Runs on a thread."""
    publish: Callable[..., None] = lambda kind, **fields: None
    """Tells what has happened; see `Events.publish`."""
