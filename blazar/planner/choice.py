"""Which build of a model to take when nobody asked for one. Pure."""

from collections.abc import Callable, Sequence

from blazar.errors import NothingFits
from blazar.hardware.census import Census
from blazar.planner.fit import SHARE, fit
from blazar.store.huggingface import Build, named
from blazar.units import format_bytes

COMMON = ("Q4_K_M", "Q4_0", "Q8_0")
"""What most people take, for a machine of which nothing is known."""


def choose(name: str, builds: Sequence[Build], census: Census) -> tuple[Build, str]:
    """The largest of the `builds` (the smallest first) that fits this machine, and why, for people.

    Raises NothingFits with the numbers.
    """
    builds = [build for build in builds if build.is_whole] or list(builds)
    smallest = fit(builds[0].size, census)
    if smallest.limit is None:
        build = next((found for label in COMMON if (found := named(builds, label))), builds[0])
        return build, f"took {_told(build)}, since this machine does not tell how much memory it has"
    limit = f"{SHARE:.0%} of this machine's {smallest.where} is {format_bytes(smallest.limit)}"
    if not smallest:
        raise NothingFits(name=name, smallest=builds[0].quantization.lower(), size=format_bytes(builds[0].size),
                          budget=limit)
    build = max((build for build in builds if fit(build.size, census)), key=lambda build: build.size)
    if len(builds) == 1:
        return build, f"took {_told(build)}, the only build there is"
    return build, f"took {_told(build)}, the largest of {len(builds)} builds that fits: {limit}"


def chooser(census: Callable[[], Census]) -> Callable[[str, Sequence[Build]], tuple[Build, str]]:
    """`choose` for the machine of `census`, which is looked at only when there is something to choose."""
    return lambda name, builds: choose(name, builds, census())


def _told(build: Build) -> str:
    return f"{build.quantization.lower()} ({format_bytes(build.size)})"
