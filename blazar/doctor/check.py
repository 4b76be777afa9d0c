"""`Check`, what it looks at, and the `Finding` it answers with."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pwd import getpwuid
from typing import Any, Literal

from blazar.hardware.census import Census
from blazar.hardware.census import census as look_around
from blazar.paths import Located

State = Literal["ok", "warn", "fail"]
_SEVERITY: tuple[State, ...] = ("ok", "warn", "fail")


@dataclass(frozen=True)
class Finding:
    """One result. `fail` means that a daemon cannot do its work here; a remedy says what to type."""

    check: str
    state: State
    found: str
    remedy: str = ""


class Surroundings:
    """What the checks look at. `daemon` is the status of the daemon of this data dir, None when none runs; a `census`
    stands in for this machine's own, and with `elsewhere` tells of another one."""

    def __init__(self, located: Located, env: Mapping[str, str], daemon: Mapping[str, Any] | None = None,
                 census: Census | None = None, elsewhere: bool = False) -> None:
        self.located = located
        self.env = env
        self.daemon = daemon
        self.elsewhere = elsewhere
        self._census = census

    @cached_property
    def census(self) -> Census:
        return self._census or look_around(env=self.env)

    @cached_property
    def config(self) -> Any:
        """The loaded configuration. Raises ConfigRefused: a check that needs it says so by itself."""
        from blazar.config.load import load
        return load(self.located.config_file, self.env, {})


Check = Callable[[Surroundings], Finding | list[Finding]]


def user_name(number: int) -> str:
    try:
        return getpwuid(number).pw_name
    except KeyError:
        return str(number)


def this_user() -> str:
    return user_name(os.geteuid())


def worst(findings: Iterable[Finding]) -> State:
    return max((finding.state for finding in findings), key=_SEVERITY.index, default="ok")
