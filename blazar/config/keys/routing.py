"""Routing: which engine, child or peer serves a request, and under which names"""

from blazar.config.setting import Setting, Table
from blazar.config.tables import alias, engine_routing, failover
from blazar.config.types import Bool, Int, ListOf

SETTINGS = (
    Setting("router", Bool(), False, group="routing",
            doc="Let one llama-server serve all models that it can, instead of one child for each."),
    Setting("router_max_models", Int(0, 1024), 0, group="routing",
            doc="Models the router child keeps loaded; 0 leaves it to the engine."),
    Setting("remote_fallback", Bool(), True, group="routing",
            doc="Send a model that is not installed here to a remote that lists it."),
    Setting("engine_routing", Table(*engine_routing.FIELDS, what="[engine_routing]"),
            {"mode": "auto", "policy": None}, group="routing",
            doc="How an engine is chosen when several could serve a model."),
    Setting("failover", ListOf(Table(*failover.FIELDS, what="[[failover]]")), (), group="routing",
            doc="Chains of targets that are tried in order under one public name."),
    Setting("alias", ListOf(Table(*alias.FIELDS, what="[[alias]]")), (),
            doc="Further names of models, each with request fields to set or to drop."),
)
