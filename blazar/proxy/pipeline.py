"""The order of the stages, and how they are strung together.

A stage is called with the exchange and with everything that comes after it: `stage(exchange, forward)`. It acts,
calls `forward` none, one or several times, and acts again; what it must undo stands in a `finally`. The answer
itself is pushed into `exchange.sink`, so a stage ends only after the last byte.
"""

from collections.abc import Callable, Mapping

from blazar.proxy.exchange import Exchange, Reply

Forward = Callable[[Exchange], Reply]
Stage = Callable[[Exchange, Forward], Reply]

ORDER = (
    # once for each exchange
    "trace",      # in-flight entry, counts, audit line
    "name",       # the canonical name, so that no spelling slips past the next stage
    "auth",       # is this model allowed to this API key
    "quota",      # the API key's limits: requests a minute and at once, head-room for tokens
    "capability",  # can this model do what is asked
    "knobs",      # per-request options; those that are not active are refused
    # once for each attempt
    "retry",      # at most one more attempt, only before any byte
    "charge",     # tokens reserved, then settled with the real count
    "resolve",    # which endpoint
    "admission",  # ready, and a lease of it
)

GENERATION = frozenset(ORDER)
"""The stage set of routes that make a model answer."""
ASKING = frozenset({"trace", "name", "auth", "quota", "capability", "knobs", "retry", "charge", "resolve",
                    "admission"})
"""The stage set of routes that ask a model something without making it write."""
LOADING = GENERATION - {"capability", "retry", "charge"}
"""The stage set of a request that only loads a model."""
UNLOADING = frozenset({"trace", "name", "auth"})
"""The stage set of a request that only names a model."""


def compose(names: frozenset[str], stages: Mapping[str, Stage], last: Forward) -> Forward:
    """One callable that runs the named stages in ORDER around `last`."""
    forward = last
    for name in reversed(ORDER):
        if name in names:
            forward = _around(stages[name], forward)
    return forward


def _around(stage: Stage, forward: Forward) -> Forward:
    return lambda exchange: stage(exchange, forward)
