"""[warm_peg]: which engines are warmed up by a request of our own once they are ready"""

from blazar.config.setting import Setting
from blazar.config.types import Bool

FIELDS = (
    Setting("default", Bool(), True,
            doc="For the engines that are not named."),
    Setting("sglang", Bool(), None,
            doc="SGLang, before the first request is let in; unset follows default."),
    Setting("mlx", Bool(), None,
            doc="MLX, before the first request is let in; unset follows default."),
    Setting("llamacpp", Bool(), None,
            doc="llama.cpp, beside the first requests; unset follows default."),
)
