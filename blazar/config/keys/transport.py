"""Transport: how children are reached, and what they are started with"""

from blazar.config.setting import Setting
from blazar.config.types import Bool, Choice, Float, Int, Json, MapOf, Text
from blazar.config.written import from_hundredths

VARIABLE = Text(r"[A-Za-z_][A-Za-z0-9_]*", like="the name of an environment variable", empty=False)
ENVIRONMENT = MapOf(Text(shown=False), VARIABLE)

SETTINGS = (
    Setting("child_transport", Choice("tcp", "unix"), "tcp", env="BLAZAR_CHILD_TRANSPORT",
            doc="How the gateway reaches its children: loopback TCP, or one Unix socket for each child."),
    Setting("child_auth", Bool(), None,
            doc="Give each child a secret that requests must carry; unset does so over TCP only."),
    Setting("sse_ping_interval", Int(-1, 86400), None, lane="llamacpp", flag="--sse-ping-interval",
            doc="Seconds between the signs of life in a quiet stream: the engine's, and the gateway's while a model "
                "loads or a prompt is read (there 15 when unset); -1 = none."),
    Setting("chat_template_kwargs", Json('{"enable_thinking": false}'), None,
            doc="Values handed to the chat template of every model, as a JSON object."),
    Setting("cont_batching", Bool(), None, lane="llamacpp", flag="--cont-batching", no_flag="--no-cont-batching",
            doc="Take new requests into a running batch; unset leaves it to the engine."),
    Setting("reuse_port", Bool(), False, lane="llamacpp", flag="--reuse-port",
            doc="Let the engine's port be bound more than once."),
    Setting("lora_init_without_apply", Bool(), False, lane="llamacpp", flag="--lora-init-without-apply",
            doc="Load LoRA adapters without applying them."),
    Setting("warmup", Bool(), True, overlay="warmup", lane="llamacpp", flag="--warmup", no_flag="--no-warmup",
            doc="Run the model once, empty, before it counts as ready."),
    Setting("samplers", Text(r"[a-z_]+(;[a-z_]+)*", like='names such as "top_k;top_p;temperature"'), "",
            lane="llamacpp", flag="--samplers",
            doc="Samplers in the order in which they are applied; empty leaves it to the engine."),
    Setting("adaptive_target", Float(-1, 1), 0.0, lane="llamacpp", flag="--adaptive-target",
            doc="Probability the adaptive-p sampler aims at; -1 = off, the default 0 leaves it to the engine."),
    Setting("adaptive_decay", Int(0, 99), 0, lane="llamacpp", flag="--adaptive-decay", written=from_hundredths,
            doc="How slowly the adaptive-p sampler forgets, in hundredths; 0 leaves it to the engine."),
    Setting("engine_env", ENVIRONMENT, {}, secret=True,
            doc="Environment variables for engines, besides Blazar's own."),
)
