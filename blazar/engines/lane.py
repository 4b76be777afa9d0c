"""`Lane`: the interface of one engine, and the values that pass through it. A lane starts nothing."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blazar.engines.manifest import Manifest
from blazar.engines.program import Program
from blazar.planner.plan import Plan
from blazar.transport import Address


@dataclass(frozen=True)
class Launch:
    """Everything a lane needs to write a command: the model's files and facts, and its effective settings."""

    model: str
    file: Path
    facts: Mapping[str, Any]
    settings: Mapping[str, Any]
    program: Program
    secret_file: Path | None
    companions: tuple[tuple[str, Path], ...] = ()
    """Role (`projector`, `draft`, `adapter`) and path of each file that stands beside the model."""
    template: Path | None = None
    """A Jinja file in place of the model's own chat template."""
    manifest: Manifest | None = None
    """What the program says it can do; None when nobody asked it."""
    lookup_cache: Path | None = None
    """A file of n-grams for speculation that looks drafts up."""
    sessions: Path | None = None
    """Folder in which the engine may keep its slots; None when it is not to."""
    plan: Plan | None = None
    """How it fits here; its decisions stand in `settings` already, where there is a setting for them."""


@dataclass(frozen=True)
class Command:
    """How to start a child: argv without the address, which `address_flags` gives; extra environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    ctx: int = 0
    slots: int = 1
    skipped: tuple[str, ...] = ()
    """What was asked for and left out, one sentence each, since the program does not have it."""
    projector: bool = False
    """Whether the child gets a projector, so that it can be shown something."""


class Lane(ABC):
    """One engine. Pure: `command` is a table of settings in, argv out."""

    kind: str
    health_path = "/health"
    load_timeout = 180.0
    """Seconds a load may take when model_load_timeout_secs is unset."""

    @abstractmethod
    def accepts(self, facts: Mapping[str, Any]) -> bool:
        """Whether this engine reads such a file."""

    @abstractmethod
    def command(self, launch: Launch) -> Command:
        """argv and environment for a child."""

    @abstractmethod
    def address_flags(self, address: Address) -> tuple[str, ...]:
        """The flags that tell the engine where to listen; port 0 lets it choose."""


def engine_environment(settings: Mapping[str, Any]) -> dict[str, str]:
    """The variables that `engine_env` gives to children, and to programs that are asked about themselves."""
    return {str(name): str(value) for name, value in (settings.get("engine_env") or {}).items()}
