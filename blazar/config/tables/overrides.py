"""[model_overrides.<name>]: settings of one model, in place of the general ones"""

from dataclasses import replace

from blazar.config.keys.engines import RPC_ENDPOINTS
from blazar.config.keys.memory import GRADES
from blazar.config.keys.scheduling import DEVICES, RATIOS, TENSOR_PLACES
from blazar.config.keys.speculative import FAMILIES
from blazar.config.setting import Setting, Table
from blazar.config.tables import lanes
from blazar.config.types import Anything, Bool, Choice, File, Float, Int, ListOf, MapOf, Text

LORA = (
    Setting("path", File(), None, required=True,
            doc="The adapter's file."),
    Setting("scale", Float(-100, 100), 1.0,
            doc="How strongly it counts."),
)


def unset(fields: tuple[Setting, ...]) -> tuple[Setting, ...]:
    """The same fields without defaults: what is not written here is taken from the general table."""
    return tuple(replace(field, default=None) for field in fields)


FIELDS = (
    Setting("ctx", Int(0), None, doc="Context size in tokens, in place of default_ctx."),
    Setting("slots", Int(0, 256), None, doc="Requests at the same time."),
    Setting("deterministic", Bool(), None, doc="The same tokens for the same request."),
    Setting("spec", Choice(*FAMILIES), None, doc="Family of speculation."),
    Setting("lazy_mode", Choice("on", "auto", "off"), None, doc="Whether the engine defers loading parts."),
    Setting("loras", ListOf(Table(*LORA, what="loras")), None, doc="LoRA adapters to apply."),
    Setting("extra_args", ListOf(Text(empty=False)), None, doc="Further flags for its engine."),
    Setting("cache_type", Choice(*GRADES), None, doc="Precision of the KV cache."),
    Setting("cache_type_k", Choice(*GRADES), None, doc="Precision of the keys."),
    Setting("cache_type_v", Choice(*GRADES), None, doc="Precision of the values."),
    Setting("kv_unified", Bool(), None, doc="One KV pool for all slots."),
    Setting("ctx_extend", Float(1, 128, also=(0,)), None, doc="YaRN factor."),
    Setting("cpu_moe_n", Int(0, 4096), None, doc="Layers whose experts are kept in RAM."),
    Setting("cpu_ffn_n", Int(0, 4096), None, doc="Layers whose feed-forward part is kept in RAM."),
    Setting("override_tensor", TENSOR_PLACES, None, doc="Devices for single tensors."),
    Setting("devices", DEVICES, None, doc="Devices it may use."),
    Setting("warmup", Bool(), None, doc="Run once, empty, before it counts as ready."),
    Setting("reasoning_budget", Int(-1), None, doc="Most tokens of thought."),
    Setting("reasoning_effort", Choice("", "minimal", "low", "medium", "high", "xhigh", "max"), None,
            doc="How long it should think."),
    Setting("reasoning", Choice("", "on", "off", "auto"), None, doc="Whether it thinks."),
    Setting("replicas", Int(1, 64), None, doc="Children that share its requests, by prefix."),
    Setting("pin", Bool(), None, doc="Never stop it to make room."),
    Setting("chat_template", Text(empty=False), None, doc="Chat template in place of its own."),
    Setting("chat_template_file", File(), None, doc="File with such a chat template."),
    Setting("sampler_defaults", MapOf(Anything()), None, doc="Request fields for callers that leave them out."),
    Setting("spm_infill", Bool(), None, doc="Suffix before prefix when filling in."),
    Setting("late_chunking", Bool(), None, doc="Let requests embed the parts of a document in the light of the whole."),
    Setting("rpc_servers", RPC_ENDPOINTS, None, doc="RPC workers; empty = the general list."),
    Setting("tensor_split", RATIOS, None, doc="Share for each GPU; empty = the general one."),
    Setting("mmproj", File(), None, doc="File of its vision projector."),
    Setting("sglang", Table(*unset(lanes.SGLANG), what="sglang"), None, doc="As [sglang], field by field."),
    Setting("mistralrs", Table(*unset(lanes.MISTRALRS), what="mistralrs"), None,
            doc="As [mistralrs], field by field."),
    Setting("mlx", Table(*unset(lanes.MLX), what="mlx"), None, doc="As [mlx], field by field."),
    Setting("engine", Text(r"\S+", like="a lane or the tag of a build", empty=False), None,
            doc="The engine that serves it, whatever the routing says."),
    Setting("group", Text(r"\S+", like="one word", empty=False), None,
            doc="Models of one group are swapped for each other: one is loaded at a time."),
    Setting("exclusive", Bool(), False, doc="Load no other model beside it."),
    Setting("evict_cost", Int(0, 1000), None,
            doc="How much it is worth keeping; a higher cost is evicted later. 1 when it is not set."),
)
