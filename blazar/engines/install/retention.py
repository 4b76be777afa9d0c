"""Which builds are kept: the newest few of each kind, besides those that nobody but their owner may remove."""

from collections.abc import Sequence

from blazar.engines.builds import Build
from blazar.engines.forks import FORKS
from blazar.engines.install.release import build_number
from blazar.engines.install.shelf import Shelf
from blazar.engines.routing import LOCAL


def superfluous(builds: Sequence[Build], keep: int) -> list[Build]:
    """The builds beyond the newest `keep` of each kind; never the one in use, a pinned one, the local one or a fork."""
    found: list[Build] = []
    for kind in sorted({build.kind for build in builds} - {FORKS}):
        newest_first = sorted((build for build in builds if build.kind == kind),
                              key=lambda build: (build.installed_at, build_number(build.tag) or 0), reverse=True)
        found += [build for build in newest_first[keep:]
                  if not (build.active or build.pinned or build.tag == LOCAL)]
    return found


def prune(shelf: Shelf, keep: int, kind: str | None = None) -> list[str]:
    """Remove the superfluous builds; their tags. The caller holds `shelf.changing()`."""
    gone = superfluous(shelf.builds.every(kind), keep)
    for build in gone:
        shelf.remove(build)
    return [build.tag for build in gone]
