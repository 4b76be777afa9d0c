"""Reasoning: what a thinking model may think, and how it is shown"""

from blazar.config.setting import Setting
from blazar.config.types import Choice, Int, Text

SETTINGS = (
    Setting("reasoning", Choice("", "on", "off", "auto"), "", group="reasoning", overlay="reasoning",
            lane="llamacpp", flag="--reasoning",
            doc="Whether a model thinks before it answers; empty leaves it to the engine."),
    Setting("reasoning_format", Choice("", "none", "deepseek", "deepseek-legacy"), "", group="reasoning",
            lane="llamacpp", flag="--reasoning-format",
            doc="Where the thoughts are put: left in the text, or in a field of their own."),
    Setting("reasoning_effort", Choice("", "minimal", "low", "medium", "high", "xhigh", "max"), "",
            group="reasoning", overlay="reasoning_effort",
            doc="How long a model should think, for chat templates that know such a grade."),
    Setting("reasoning_budget", Int(-1), -1, group="reasoning", overlay="reasoning_budget",
            lane="llamacpp", flag="--reasoning-budget",
            doc="Most tokens of thought; -1 = no limit, 0 = none."),
    Setting("reasoning_budget_message", Text(), "", group="reasoning",
            lane="llamacpp", flag="--reasoning-budget-message",
            doc="Text put at the end of the thoughts when the budget is used up."),
)
