"""Why a setting is not active: what it waits for. One table, for `config list`, the reference page and the warnings."""

from collections.abc import Iterator, Mapping

from blazar.config.registry import SETTINGS, declared
from blazar.config.setting import Setting

WAITS: Mapping[str, tuple[str, ...]] = {
    # what is not there yet: the settings and fields that wait for it, or how their names begin before a *
    "requests that go to other servers": ("remotes", "remote_fallback"),
    "failover chains": ("failover",),
    "MCP tools of the gateway": ("mcp", "mcp_default"),
    "export to OpenTelemetry": ("otlp_*",),
    "the SGLang lane": ("sglang", "model_overrides.<name>.sglang", "warm_peg.sglang"),
    "the MLX lane": ("mlx", "model_overrides.<name>.mlx", "warm_peg.mlx"),
    "the mistral.rs lane": ("mistralrs", "model_overrides.<name>.mistralrs"),
    "the whisper lane": ("whisper_*",),
    "the stable-diffusion.cpp lane": ("sdcpp_*",),
}


def waits_for(path: str) -> str:
    """What the setting or field at `path` (`keys[].rpm`) waits for; a field waits for what its table does too."""
    for what, names in WAITS.items():
        if any(path == name or (name.endswith("*") and path.startswith(name[:-1])) for name in names):
            return what
    return waits_for(_around(path)) if _around(path) else "a later version"


def waiting(active: frozenset[str], settings: Mapping[str, Setting] = SETTINGS) -> Iterator[tuple[str, Setting]]:
    """The settings that are not in `active`, and fields that are not while their table is."""
    for path, setting in declared(settings):
        if path not in active and (not _around(path) or _around(path) in active):
            yield path, setting


def _around(path: str) -> str:
    """The table of a field; empty for a setting."""
    return path.rpartition(".")[0].removesuffix("[]").removesuffix(".<name>")
