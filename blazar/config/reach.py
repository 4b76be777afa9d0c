"""Whom a setting concerns while the daemon runs: what only a restart changes, and what the gateway goes by."""

from collections.abc import Mapping
from typing import Any

from blazar.config.exposure_rules import tools_offered
from blazar.config.frozen import freeze

FIXED = frozenset({"host", "port", "router"})
"""Those that hold until the daemon is started anew: where it listens, and whether one child serves all models."""
GATEWAY = frozenset({
    "alias", "audit_log", "buffered_via_stream", "child_header_timeout_secs", "client_write_timeout_secs",
    "cors_origins", "decode_policy", "json_scan_over_kb", "late_chunking_max_tokens", "log_level", "max_body_mb",
    "max_queued", "model_load_timeout_secs", "prompt_preflight", "queue_timeout_secs", "raw_lane_max_tokens",
    "reasoning_format", "semantic_cache", "sentinel", "sentinel_enforce", "sentinel_stall_secs",
    "server_tools_runtime", "singleflight", "sse_ping_interval", "trusted_proxies"})
"""Those that a gateway worker takes when it starts."""
TOLD = frozenset({"keys", "tls_cert", "tls_key"})
"""Those that it reads too, and is told of while it runs."""
OVERRIDES = ("raw_lane_max_tokens", "replicas", "sampler_defaults")
"""Fields of [model_overrides] by which the gateway goes."""


def of_gateway(values: Mapping[str, Any]) -> Any:
    """What a gateway worker takes of the settings when it starts; another value means that it has to be replaced."""
    overrides = {model: {field: entry.get(field) for field in OVERRIDES if entry.get(field) is not None}
                 for model, entry in values["model_overrides"].items()}
    return freeze({**{name: values[name] for name in GATEWAY},
                   "overrides": {model: entry for model, entry in overrides.items() if entry},
                   "tls": bool(values["tls_cert"]), "tools": any(tools_offered(values))})


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The names of settings whose values differ."""
    return sorted(name for name in after if freeze(before[name]) != freeze(after[name]))
