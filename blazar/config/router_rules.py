"""Rules about the router, the one child that serves all models."""

from collections.abc import Iterator, Mapping
from typing import Any

from blazar.config.rule import Problem, overrides, rule

Values = Mapping[str, Any]

UNHEEDED = ("spec_auto_manage", "ubatch_auto", "predictive_preload")
"""What starts a model's child anew with other flags, or ahead of requests."""


@rule(refused="router = true\n[model_overrides.m]\nreplicas = 2", accepted="[model_overrides.m]\nreplicas = 2")
def router_serves_each_model_once(values: Values) -> Iterator[Problem]:
    """A router has one process for each model."""
    for path, entry in overrides(values):
        if values["router"] and (entry["replicas"] or 1) > 1:
            yield Problem((*path, "replicas"), "router = true gives each model one child at most",
                          "remove it and set slots instead, or set router = false")


@rule(refused="router = true\nubatch_auto = true", accepted="ubatch_auto = true", warns=True)
def router_is_not_governed(values: Values) -> Iterator[Problem]:
    """The children of a router are its own to start."""
    for name in UNHEEDED:
        if values["router"] and values[name]:
            yield Problem((name,), "it has no effect on models that the router serves", "set router = false for it",
                          fatal=False)


@rule(refused="router_max_models = 2", accepted="router = true\nrouter_max_models = 2", warns=True)
def router_limit_needs_router(values: Values) -> Iterator[Problem]:
    """Without a router the limit is max_loaded_models."""
    if values["router_max_models"] and not values["router"]:
        yield Problem(("router_max_models",), "it does nothing without router = true", "set max_loaded_models instead",
                      fatal=False)


ROUTER_RULES = (router_serves_each_model_once, router_is_not_governed, router_limit_needs_router)
