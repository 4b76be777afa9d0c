"""`Lane`: the interface of one engine, and the values that pass through it. A lane starts nothing."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Program:
    """An engine program that can be run: `argv` is its beginning (a path, or an interpreter and a module)."""

    kind: str
    argv: tuple[str, ...]
    source: str
    """Where it came from, for people: `BLAZAR_ENGINE_PATH`, `PATH`, `embedded`, or the tag of an installed build."""
    tag: str = ""
    """What an `engine` pin calls it: the tag of an installed build, `local`, `path` or `embedded`."""
    picks_port: bool = True
    """Whether it accepts `--port 0`, so that no port has to be chosen for it."""


@dataclass(frozen=True)
class Launch:
    """Everything a lane needs to write a command: the model's file and facts, and its effective settings."""

    model: str
    file: Path
    facts: Mapping[str, Any]
    settings: Mapping[str, Any]
    program: Program
    secret_file: Path | None


@dataclass(frozen=True)
class Command:
    """How to start a child: argv without the address, which `address_flags` gives; extra environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    ctx: int = 0
    slots: int = 1


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
    def address_flags(self, host: str, port: int) -> tuple[str, ...]:
        """The flags that tell the engine where to listen; port 0 lets it choose."""
