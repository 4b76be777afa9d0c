"""Memory: the KV cache of a child, and how weights are read"""

from blazar.config.setting import Setting
from blazar.config.types import Bool, Choice, Int
from blazar.config.written import engine_load_mode

GRADES = ("", "f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")

SETTINGS = (
    Setting("cache_type", Choice(*GRADES), "", overlay="cache_type",
            doc="Precision of the KV cache; empty steps down from f16 until it fits."),
    Setting("cache_type_k", Choice(*GRADES), "", overlay="cache_type_k", lane="llamacpp", flag="--cache-type-k",
            doc="Precision of the keys in the KV cache, in place of cache_type."),
    Setting("cache_type_v", Choice(*GRADES), "", overlay="cache_type_v", lane="llamacpp", flag="--cache-type-v",
            doc="Precision of the values in the KV cache, in place of cache_type."),
    Setting("kv_unified", Bool(), None, overlay="kv_unified",
            lane="llamacpp", flag="--kv-unified", no_flag="--no-kv-unified",
            doc="Let all slots share one KV pool; unset turns it on where there are several slots."),
    Setting("kv_unified_per_slot", Int(0), 0, lane="llamacpp", flag="--kv-unified-per-slot",
            doc="Tokens of the shared KV pool for each slot; 0 leaves it to the engine."),
    Setting("swa_full", Bool(), False, lane="llamacpp", flag="--swa-full",
            doc="Keep the whole context for layers with a sliding window."),
    Setting("ctx_checkpoints", Int(0, 4096), 0, lane="llamacpp", flag="--ctx-checkpoints",
            doc="Context checkpoints kept for each slot; 0 leaves it to the engine."),
    Setting("no_kv_offload", Bool(), False, lane="llamacpp", flag="--no-kv-offload",
            doc="Keep the KV cache in RAM even when layers run on a GPU."),
    Setting("load_mode", Choice("", "mmap", "mlock", "direct-io"), "",
            lane="llamacpp", flag="--load-mode", written=engine_load_mode,
            doc="How weights are read: mapped, locked in RAM, or past the page cache; empty leaves it to the engine."),
    Setting("keep_tokens", Int(-1), 0, lane="llamacpp", flag="--keep",
            doc="Tokens of the prompt's beginning that stay when the context is shifted; -1 = all."),
    Setting("no_host", Bool(), False, lane="llamacpp", flag="--no-host",
            doc="Do without the host buffer, so that extra buffers can be used."),
    Setting("context_shift", Bool(), False, lane="llamacpp", flag="--context-shift",
            doc="Drop the oldest tokens when the context is full, instead of ending the answer."),
)
