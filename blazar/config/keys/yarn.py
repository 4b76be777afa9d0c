"""YaRN: how positions are stretched beyond the trained context"""

from blazar.config.setting import Setting
from blazar.config.types import Float, Int

SETTINGS = (
    Setting("yarn_orig_ctx", Int(0), 0, group="yarn", lane="llamacpp", flag="--yarn-orig-ctx",
            doc="Context the model was trained with, in tokens; 0 takes it from the model."),
    Setting("yarn_ext_factor", Float(0, 100, also=(-1.0,)), -1.0, group="yarn",
            lane="llamacpp", flag="--yarn-ext-factor",
            doc="Mix of extrapolation and interpolation; -1 leaves it to the engine."),
    Setting("yarn_attn_factor", Float(0, 100, also=(-1.0,)), 0.0, group="yarn",
            lane="llamacpp", flag="--yarn-attn-factor",
            doc="Scale of the attention; 0 leaves it to the engine."),
    Setting("yarn_beta_fast", Float(0, 10000, also=(-1.0,)), 0.0, group="yarn",
            lane="llamacpp", flag="--yarn-beta-fast",
            doc="Rotations above which a dimension is not stretched; 0 leaves it to the engine."),
    Setting("yarn_beta_slow", Float(0, 10000, also=(-1.0,)), 0.0, group="yarn",
            lane="llamacpp", flag="--yarn-beta-slow",
            doc="Rotations below which a dimension is stretched whole; 0 leaves it to the engine."),
)
