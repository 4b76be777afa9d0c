"""Resources: context, number of loaded models, the way from idle to evicted, and what is loaded ahead"""

from blazar.config.setting import Setting, Table
from blazar.config.tables import overrides, warm_peg
from blazar.config.types import Bool, Choice, Float, Int, ListOf, MapOf, Text
from blazar.config.written import given

MODELS = ListOf(Text(like="the name of a model", empty=False))

SETTINGS = (
    Setting("default_ctx", Int(0), 16384, group="resources", env="BLAZAR_DEFAULT_CTX", overlay="ctx",
            lane="llamacpp", flag="--ctx-size", emit="always",
            doc="Context of each slot in tokens, at most those it was trained with; 0 = as many of these as fit."),
    Setting("max_loaded_models", Int(0, 1024), 0, group="resources",
            doc="Models loaded at the same time, if they fit; 0 = as many as fit."),
    Setting("idle_sleep_secs", Int(0), 300, group="resources",
            lane="llamacpp", flag="--sleep-idle-seconds", emit="always", written=given,
            doc="Seconds without a request after which a child frees its GPU memory; 0 = never."),
    Setting("idle_timeout_secs", Int(0), 1800, group="resources",
            doc="Seconds without a request after which a child is stopped; 0 = never."),
    Setting("cache_ram_mb", Int(-1), 8192, group="resources", lane="llamacpp", flag="--cache-ram",
            doc="Memory of a child's prompt cache in MiB, at most 30 % of the RAM; 0 = none, -1 = no limit."),
    Setting("ctx_extend", Float(1, 128, also=(0,)), 0.0, group="resources", overlay="ctx_extend",
            doc="Factor by which YaRN stretches the context of a model; 0 = not at all."),
    Setting("spawn_mem_guard", Bool(), True, group="resources",
            doc="Refuse a load for which the free RAM is plainly too small."),
    Setting("numa", Choice("", "distribute", "isolate"), "", group="resources", lane="llamacpp", flag="--numa",
            doc="Placement of a child's threads on machines with several memory nodes."),
    Setting("preload", MODELS, (), env="BLAZAR_PRELOAD",
            doc="Models to load one after the other once Blazar listens; a failure is only a warning."),
    Setting("models_autoload", MODELS, None, feeds="preload",
            doc="Another spelling of preload; the two lists are joined."),
    Setting("predictive_preload", Bool(), False,
            doc="Load the model that usually follows the one just used."),
    Setting("idle_ram_warm", Bool(), True,
            doc="After an idle eviction read the weights into the page cache again, so that the next load is quick."),
    Setting("warm_peg", Table(*warm_peg.FIELDS, what="[warm_peg]"),
            {"default": True, "sglang": None, "mlx": None, "llamacpp": None},
            doc="Which engines are warmed up by a first request of our own."),
    Setting("engine_check_secs", Int(0), 86400,
            doc="Seconds between two looks for newer engine builds; 0 = never. Nothing is installed on its own."),
    Setting("model_overrides", MapOf(Table(*overrides.FIELDS, what="[model_overrides.<name>]"),
                                     Text(like="the name of a model", empty=False)), {},
            doc="Settings of single models; without a variant a name covers all variants of that model."),
)
