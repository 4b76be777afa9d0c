"""[engine_routing]: which engine serves a model that several could"""

from blazar.config.setting import Setting
from blazar.config.types import Choice

FIELDS = (
    Setting("mode", Choice("auto", "manual"), "auto",
            doc="Choose an engine for each model, or always use the active one."),
    Setting("policy", Choice("quality", "latency", "throughput"), None,
            doc="What to prefer when choosing."),
)
