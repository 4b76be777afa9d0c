"""Which model is likely to be asked for next: the one that most often followed the model just used."""

from collections import Counter
from collections.abc import Collection

ENOUGH = 2
"""How often a model must have followed another one before it is expected to."""


class Followers:
    """Counts which model followed which, and so never holds more than the models that were used."""

    def __init__(self) -> None:
        self._after: dict[str, Counter[str]] = {}
        self._last = ""

    def use(self, model: str) -> bool:
        """Note that `model` is the one used last; whether that is another one than before."""
        if model == self._last:
            return False
        if self._last:
            self._after.setdefault(self._last, Counter())[model] += 1
        self._last = model
        return True

    def expected(self, loaded: Collection[str]) -> str | None:
        """The model that usually follows the last one; None when none does so often enough, or it is `loaded`."""
        [(model, times)] = self._after.get(self._last, Counter()).most_common(1) or [("", 0)]
        return model if times >= ENOUGH and model not in loaded else None
