"""[semantic_cache]: answers kept for nearly the same questions"""

from blazar.config.setting import Setting
from blazar.config.types import Bool, Float, Int

FIELDS = (
    Setting("enabled", Bool(), False,
            doc="Ask it for every request; otherwise only for those with `X-Blazar-Cache: on`."),
    Setting("ttl_secs", Int(1), 600,
            doc="Seconds for which an answer is kept."),
    Setting("threshold", Float(0, 1), 0.9,
            doc="Similarity from which two questions count as the same."),
    Setting("max_entries", Int(1, 10**6), 256,
            doc="Answers kept at most."),
)
