"""The order of the stages, and how they are strung together.

A stage is called with the exchange and with everything that comes after it: `stage(exchange, forward)`. It acts,
calls `forward` none, one or several times, and acts again; what it must undo stands in a `finally`. The answer
itself is pushed into `exchange.sink`, so a stage ends only after the last byte. A stage of STEPS, which only looks or
amends, gets the exchange alone: `step(exchange)` returns, or raises.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MethodType
from typing import Any, Final

from blazar.proxy.exchange import Exchange, Reply

Forward = Callable[[Exchange], Reply]
Stage = Callable[[Exchange, Forward], Reply]
Step = Callable[[Exchange], None]

ORDER: Final = (
    # once for each exchange
    "trace",      # in-flight entry, counts, audit line
    "name",       # the canonical name, so that no spelling slips past the next stage
    "auth",       # is this model allowed to this API key
    "quota",      # the API key's limits: requests a minute and at once, head-room for tokens
    "capability",  # can this model do what is asked
    "media",      # are its pictures whole, and can this model see them
    "knobs",      # per-request options; those that are not active are refused
    "structure",  # the form that the answer must have, and who checks it
    "semantic_cache",  # an answer that was given to nearly the same question
    "singleflight",  # identical requests, asked at the same time, get one answer
    # once for each attempt
    "retry",      # at most one more attempt, only before any byte
    "charge",     # the tokens that it has really used
    "resolve",    # which endpoint
    "preflight",  # does the prompt fit
    "lease",      # ready, and a lease of it: for what takes no slot
    "admission",  # the same, and one of its slots
)

STEPS: Final = frozenset({"name", "auth", "capability", "media", "knobs", "structure", "resolve", "preflight"})
"""Stages after which nothing is to be undone."""

GENERATION: Final = frozenset(ORDER) - {"lease"}
"""The stage set of routes that make a model answer."""
ASKING: Final = frozenset({"trace", "name", "auth", "quota", "capability", "media", "knobs", "retry", "charge",
                           "resolve", "admission"})
"""The stage set of routes that have a model work without making it write."""
COUNTING: Final = ASKING - {"admission"} | {"lease"}
"""The stage set of routes that ask a child what takes none of its slots: tokens are counted beside any answer."""
LOADING: Final = frozenset({"trace", "name", "auth", "quota", "knobs", "resolve", "lease"})
"""The stage set of a request that only loads a model."""
UNLOADING: Final = frozenset({"trace", "name", "auth"})
"""The stage set of a request that only names a model."""


def compose(names: frozenset[str], stages: Mapping[str, Step | Stage], last: Forward) -> Forward:
    """One callable that runs the named stages in ORDER around `last`."""
    forward = last
    steps: list[Step] = []
    for name in reversed(ORDER):
        if name in names and name in STEPS:
            steps.insert(0, _bound(stages[name]))
        elif name in names:
            forward = _around(_bound(stages[name]), _after(steps, forward))
            steps = []
    return _after(steps, forward)


def _bound(stage: Any) -> Any:
    # A bound method is called without a level of the C stack, which is copied whenever a request has to wait. Of a
    # compiled stage it would be one that packs the arguments only to unpack them.
    bound = stage.__call__
    return bound if isinstance(bound, MethodType) else stage


def _around(stage: Stage, forward: Forward) -> Forward:
    return lambda exchange: stage(exchange, forward)


def _after(steps: Iterable[Step], forward: Forward) -> Forward:
    taken = tuple(steps)
    if not taken:
        return forward

    def step_on(exchange: Exchange) -> Reply:
        for step in taken:
            step(exchange)
        return forward(exchange)
    return step_on
