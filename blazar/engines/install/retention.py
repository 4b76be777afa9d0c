"""Which builds are kept: the newest few of each kind, besides those that nobody but their owner may remove."""

from collections.abc import Collection, Sequence
from typing import Any

from blazar.engines.builds import Build
from blazar.engines.forks import FORKS
from blazar.engines.install.release import build_number
from blazar.engines.install.shelf import Shelf
from blazar.engines.routing import LOCAL


def superfluous(builds: Sequence[Build], keep: int, needed: Collection[str] = ()) -> list[Build]:
    """The builds beyond the newest `keep` of each kind; never the one in use, a pinned one, the local one, a fork, or
    one whose tag is `needed`. Unless only one shall stay, what a rollback goes back to stays too.
    """
    found: list[Build] = []
    for kind in sorted({build.kind for build in builds} - {FORKS}):
        newest_first = sorted((build for build in builds if build.kind == kind),
                              key=lambda build: (build.installed_at, build_number(build.tag) or 0), reverse=True)
        before = max((build for build in newest_first if build.turn and not build.active), default=None,
                     key=lambda build: build.turn)
        found += [build for build in newest_first[keep:]
                  if not (build.active or build.pinned or build.tag in (LOCAL, *needed)
                          or (keep > 1 and build is before))]
    return found


def prune(shelf: Shelf, keep: int, needed: Collection[str] = (), kind: str | None = None) -> list[str]:
    """Remove the superfluous builds; their tags. The caller holds `shelf.changing()`."""
    gone = superfluous(shelf.builds.every(kind), keep, needed)
    for build in gone:
        shelf.remove(build)
    return [build.tag for build in gone]


def pins(config: Any) -> frozenset[str]:
    """The tags that models are pinned to in the configuration: without these builds they would not load."""
    entries = config.model_overrides.values()
    return frozenset(entry["engine"] for entry in entries if entry.get("engine"))
