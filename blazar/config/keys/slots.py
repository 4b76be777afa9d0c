"""Slots: parallel requests of one child, batches, and repeatable answers"""

from blazar.config.setting import Setting
from blazar.config.types import Bool, Float, Int

SETTINGS = (
    Setting("slots", Int(0, 256), 0, overlay="slots", lane="llamacpp", flag="--parallel",
            doc="Requests a child works on at the same time; 0 = what fits on a card, up to four, else one."),
    Setting("deterministic", Bool(), False, overlay="deterministic",
            doc="Answer the same request with the same tokens: one slot only."),
    Setting("slot_prompt_similarity", Float(0, 1), 0.0, lane="llamacpp", flag="--slot-prompt-similarity",
            doc="Share of a prompt that a slot must hold already to be chosen for it; 0 leaves it to the engine."),
    Setting("adaptive_slots", Bool(), True,
            doc="Add a slot, up to four, after a minute of steady waiting."),
    Setting("cache_idle_slots", Bool(), True,
            lane="llamacpp", flag="--cache-idle-slots", no_flag="--no-cache-idle-slots",
            doc="Save the prompts of idle slots to the prompt cache when a new task comes."),
    Setting("repack", Bool(), True, lane="llamacpp", flag="--repack", no_flag="--no-repack",
            doc="Rearrange weights at load for faster work on a CPU."),
    Setting("batch_size", Int(0, 2**20), 0, lane="llamacpp", flag="--batch-size",
            doc="Tokens of a prompt handed over at a time; 0 leaves it to the engine."),
    Setting("ubatch_size", Int(0, 2**20), 0, lane="llamacpp", flag="--ubatch-size",
            doc="Tokens computed in one pass; 0 leaves it to the engine. More than 512 has measured slower."),
    Setting("ubatch_auto", Bool(), False, env="BLAZAR_UBATCH_AUTO",
            doc="Raise ubatch_size step by step while a model is saturated, and lower it again."),
    Setting("cpu_moe_n", Int(0, 4096), 0, overlay="cpu_moe_n", lane="llamacpp", flag="--n-cpu-moe",
            doc="Layers whose experts are kept in RAM."),
    Setting("cpu_ffn_n", Int(0, 4096), 0, overlay="cpu_ffn_n", lane="llamacpp", flag="--n-cpu-ffn",
            doc="Layers whose feed-forward part is kept in RAM."),
    Setting("sessions", Bool(), True,
            doc="Let engines keep the KV cache of their slots on disk."),
    Setting("session_bank", Bool(), True,
            doc="Save a child's slots when it is evicted and restore them when it comes back."),
    Setting("session_keep_secs", Int(0), 900,
            doc="Seconds for which a saved session is pinned: others that are older go before it; 0 = off."),
)
