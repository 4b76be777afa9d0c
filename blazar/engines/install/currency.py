"""Is the build in use the newest of its channel? Only ever looked up, never installed from here."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blazar.engines.builds import Build
from blazar.engines.install.flavour import Machine, choose
from blazar.engines.install.release import Releases, Stable, build_number
from blazar.errors import ReleaseNotFound
from blazar.paths import Paths
from blazar.store.locks import told_in_words


@dataclass(frozen=True)
class Currency:
    """What is in use, what the channel holds, and what upstream calls stable; None = nothing."""

    active: str | None
    newest: str
    channel: str
    stable: Stable | None

    @property
    def is_current(self) -> bool:
        """A channel is a pin: a build newer than its own is not current either."""
        if self.active is None:
            return False
        mine, theirs = build_number(self.active), build_number(self.newest)
        return self.active == self.newest or (mine is not None and mine == theirs)

    def line(self) -> str:
        """The whole state in one line, for people."""
        newest = self._marked(self.newest)
        if self.active is None:
            return f"no engine build is installed; newest in channel {self.channel} is {newest}: `blazar engine update`"
        active = self._marked(self.active)
        if self.is_current:
            return f"{active} is in use, which is current in channel {self.channel}"
        return f"{active} is in use, and channel {self.channel} has {newest}: `blazar engine update`"

    def to_dict(self) -> dict[str, Any]:
        return {"active": self.active, "newest": self.newest, "channel": self.channel, "current": self.is_current,
                "stable": None if self.stable is None else {"tag": self.stable.tag, "marker": self.stable.marker},
                "line": self.line()}

    def _marked(self, tag: str) -> str:
        """`b11429 (stable v0.6.0)` for the build that upstream stamps."""
        if self.stable is None or build_number(tag) is None or build_number(tag) != build_number(self.stable.tag):
            return tag
        return f"{tag} ({' '.join(filter(None, ('stable', self.stable.marker)))})"


def check(releases: Releases, channel: str, asset: str, machine: Machine, active: Build | None) -> Currency:
    """Ask the releases. Raises ReleasesUnreachable, ReleaseNotFound or NoAssetHere."""
    stable = releases.stable()
    if channel == "stable":
        if stable is None:
            raise ReleaseNotFound(tag="that is marked stable", repo=releases.repo)
        newest = stable.tag
    else:
        newest = choose(releases.newest(), asset, machine).release.tag
    return Currency(active.tag if active else None, newest, channel, stable)


def remember(paths: Paths, found: Currency, now: float) -> None:
    """Keep what was found, and when (in seconds of the epoch), so that a daemon that starts need not ask again."""
    file = _file(paths)
    partial = file.with_name(file.name + ".partial")
    with told_in_words(file):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial.write_text(json.dumps({"at": now, **found.to_dict()}))
        partial.replace(file)


def remembered(paths: Paths, now: float | None = None) -> dict[str, Any] | None:
    """What `to_dict` said the last time, with `at`; None when that is unknown, or lies in the future."""
    try:
        found = json.loads(_file(paths).read_text())
        return found if 0 <= float(found["at"]) <= (time.time() if now is None else now) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _file(paths: Paths) -> Path:
    return paths.run / "engine-check.json"
