"""Whether a child is sent a first, short request of our own: it makes the engine touch weights, template and sampler.

A child that somebody waits for gets its first request anyway, and ours would only stand before it. One that was given
its former slots would lose them to it.
"""

from collections.abc import Collection, Mapping
from typing import Any


def decide(lane: str, settings: Mapping[str, Any], capabilities: Collection[str], *, is_awaited: bool,
           restored: int) -> bool:
    """`settings` are those of [warm_peg]; `restored` are the tokens that the child was given back."""
    wanted = settings.get("llamacpp") if lane == "llamacpp" else False
    if wanted is None:
        wanted = settings.get("default")
    return bool(wanted) and "embedding" not in capabilities and not is_awaited and not restored
