"""`Minutes`: what API keys have used in the last minute, for a gateway worker that takes over from another.

Kept as the gateway counts it, in steps of a tenth of a second of CLOCK_MONOTONIC, so that nothing counts longer or
shorter for having been told.
"""

from collections.abc import Callable, Mapping
from typing import Any

SPAN = 60 * 10
"""Steps that still count besides the one under way."""


class Minutes:
    """Used on the loop's thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._keys: dict[str, dict[int, list[int]]] = {}
        """By API key and step: requests, tokens."""

    def add(self, row: Mapping[str, Any]) -> None:
        """Take down one row of a worker's report."""
        steps = self._keys.setdefault(row["key"], {})
        for step, requests, tokens in row["steps"]:
            here = steps.setdefault(step, [0, 0])
            here[0] += requests
            here[1] += tokens
        self._forget(steps)

    def told(self) -> dict[str, list[list[int]]]:
        """By API key: step, requests, tokens; the oldest step first."""
        for steps in self._keys.values():
            self._forget(steps)
        self._keys = {key: steps for key, steps in self._keys.items() if steps}
        return {key: [[step, *steps[step]] for step in sorted(steps)] for key, steps in self._keys.items()}

    def _forget(self, steps: dict[int, list[int]]) -> None:
        oldest = int(self._clock() * 10) - SPAN
        for step in [step for step in steps if step < oldest]:
            del steps[step]
