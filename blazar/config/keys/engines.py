"""Engines: builds, downloads, and the tables of the single lanes"""

from blazar.config.setting import Setting, Table
from blazar.config.tables import lanes
from blazar.config.types import Choice, Int, Text

_PORT = r"(?!0+(?:,|$))(?:[0-5]?\d{1,4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])"
RPC_ENDPOINTS = Text(rf"[^\s,:]+:{_PORT}(,[^\s,:]+:{_PORT})*", like='host:port, several separated by commas')

SETTINGS = (
    Setting("engine_asset", Text(r"[A-Za-z0-9._-]+", like='"auto" or a flavour such as "vulkan"', empty=False), "auto",
            doc="Flavour of engine build to install; auto goes by the hardware."),
    Setting("update_channel", Choice("latest", "stable"), "latest",
            doc="Which builds count as current: every release, or only those marked stable."),
    Setting("download_connections", Int(1, 64), 8,
            doc="Connections for one large download; 1 = a single stream."),
    Setting("download_speed_limit_mb", Int(0, 10**6), 0, env="BLAZAR_DOWNLOAD_SPEED_LIMIT_MB",
            doc="Limit for all downloads together, in MB a second; 0 = none."),
    Setting("rpc_servers", RPC_ENDPOINTS, "", overlay="rpc_servers", lane="llamacpp", flag="--rpc", gate="refuse",
            doc="llama.cpp RPC workers that hold a part of each model. They know no passwords: trusted networks only."),
    Setting("lazy_mode", Choice("on", "auto", "off"), "auto", overlay="lazy_mode", lane="llamacpp", flag="--lazy-mode",
            doc="Whether the engine defers loading parts of a model until they are used."),
    Setting("fork_retire_days", Int(0, 36500), 7,
            doc="Days after which a fork build is removed once the main engine can do all it did; 0 = never."),
    Setting("keep_tags", Int(1, 1000), 2,
            doc="Builds of each kind kept after an install; 1 leaves none to roll back to."),
    Setting("capability_registry_url", Text(r"https?://\S+", like="an http(s) URL, or empty for none"), None,
            env="BLAZAR_CAPABILITY_REGISTRY",
            doc="Catalog of builds for architectures the main engine lacks; unset or empty: none is asked."),
    Setting("sglang", Table(*lanes.SGLANG, what="[sglang]"), lanes.defaults(lanes.SGLANG),
            doc="Tuning of the SGLang lane."),
    Setting("mlx", Table(*lanes.MLX, what="[mlx]"), lanes.defaults(lanes.MLX),
            doc="Tuning of the MLX lane."),
    Setting("mistralrs", Table(*lanes.MISTRALRS, what="[mistralrs]"), lanes.defaults(lanes.MISTRALRS),
            doc="Tuning of the mistral.rs lane."),
)
