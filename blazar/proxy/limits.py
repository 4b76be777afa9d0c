"""What an API key may do, and how much of that is left to it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

DAY: Final = 86400


@dataclass(frozen=True)
class Limits:
    """What an API key may do; None is no limit. `weight` is its share of a busy model, against that of others."""

    rpm: int | None = None
    tpm: int | None = None
    daily_tokens: int | None = None
    max_concurrent: int | None = None
    weight: float = 1.0

    @cached_property
    def has_rates(self) -> bool:
        """Whether there is anything that an answer can tell as used up by and by."""
        return (self.rpm, self.tpm, self.daily_tokens) != (None, None, None)


NO_LIMITS: Final = Limits()

Left = tuple[int, int, bool]
"""What is left of them, with what is reserved taken off: of `rpm`, where there is that limit; then of `tpm` or
`daily_tokens`, where there is either, the one that is nearer its end; and whether that is the day's."""


def to_midnight(now: float) -> float:
    """Seconds until a day's tokens are there again, at this time of day."""
    return DAY - now % DAY
