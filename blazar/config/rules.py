"""RULES: every condition between settings. One function each; single values are checked by their types."""

from blazar.config.engine_rules import ENGINE_RULES
from blazar.config.exposure_rules import EXPOSURE_RULES
from blazar.config.name_rules import NAME_RULES
from blazar.config.router_rules import ROUTER_RULES
from blazar.config.rule import Rule

RULES: tuple[Rule, ...] = (*EXPOSURE_RULES, *NAME_RULES, *ENGINE_RULES, *ROUTER_RULES)
