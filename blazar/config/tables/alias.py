"""[[alias]]: another name for a model, with a preset"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from blazar.config.refusal import Refusal, Refusals, inside, nearest, show
from blazar.config.setting import Setting
from blazar.config.types import Anything, Bool, Choice, Float, Int, ListOf, MapOf, OneOf, Text, Type, as_table

NAME = r"(?!.*\.\.)(?=.{1,200}$)[A-Za-z0-9][A-Za-z0-9._-]*(:[A-Za-z0-9][A-Za-z0-9._-]*)?"
"""The grammar of model names, without slashes."""

ANY_NUMBER = Float(-10**6, 10**6)
TOKENS = Int(1)

SETTABLE: Mapping[str, Type] = MappingProxyType({
    # what `set` may hold: `system`, and fields of a chat completion as the engine reads them
    "system": Text(empty=False),
    "temperature": Float(0, 100), "dynatemp_range": Float(0, 100), "dynatemp_exponent": ANY_NUMBER,
    "top_p": Float(0, 1), "top_k": Int(-1), "min_p": Float(0, 1), "typical_p": Float(0, 1),
    "top_n_sigma": ANY_NUMBER, "xtc_probability": Float(0, 1), "xtc_threshold": Float(0, 1),
    "repeat_penalty": ANY_NUMBER, "repeat_last_n": Int(-1), "presence_penalty": ANY_NUMBER,
    "frequency_penalty": ANY_NUMBER, "dry_multiplier": ANY_NUMBER, "dry_base": ANY_NUMBER,
    "dry_allowed_length": Int(), "dry_penalty_last_n": Int(-1), "dry_sequence_breakers": ListOf(Text()),
    "mirostat": Int(0, 2), "mirostat_tau": ANY_NUMBER, "mirostat_eta": ANY_NUMBER,
    "adaptive_target": ANY_NUMBER, "adaptive_decay": ANY_NUMBER,
    "samplers": ListOf(Text(empty=False)), "seed": Int(-1, 2**32 - 1), "n_keep": Int(-1),
    "max_tokens": TOKENS, "max_completion_tokens": TOKENS, "n_predict": TOKENS,
    "stop": ListOf(Text(empty=False)), "ignore_eos": Bool(), "logit_bias": MapOf(ANY_NUMBER),
    "cache_prompt": Bool(), "chat_template_kwargs": MapOf(Anything()), "parallel_tool_calls": Bool(),
    "reasoning_effort": Text(empty=False), "reasoning_budget": Int(-1), "thinking_budget_tokens": Int(-1),
    "reasoning_format": Choice("none", "auto", "deepseek", "deepseek-legacy"),
    "response_format": OneOf(MapOf(Anything()), toml_type="table"), "grammar": Text(empty=False),
})

NEEDED = ("model", "messages", "prompt", "input", "stream", "stream_options")
"""Fields without which a request is none, or another one."""

MEANT = {
    # what may be written instead of a field that cannot be set
    **dict.fromkeys(NEEDED, "it belongs to the request itself, leave it out"),
    "num_predict": "write `max_tokens`",
    "num_ctx": "write `ctx` in [model_overrides] of the model, which shapes the load",
    "think": "write chat_template_kwargs = { enable_thinking = false }",
    "enable_thinking": "write chat_template_kwargs = { enable_thinking = false }",
    "tools": "tools come with each request",
    "system_prompt": "write `system`",
}


class RequestFields(Type):
    """Fields of a request by the names of SETTABLE."""

    toml_type = "table"

    def check(self, value: Any) -> Mapping[str, Any]:
        checked, refusals = {}, []
        for name, item in as_table(value, self).items():
            if name not in SETTABLE:
                refusals.append(_unknown(name))
                continue
            try:
                checked[name] = SETTABLE[name].check(item)
            except (Refusal, Refusals) as error:
                refusals += inside(name, error)
        if refusals:
            raise Refusals(refusals)
        return MappingProxyType(checked)

    def describe(self) -> str:
        return "a table of request fields, such as { temperature = 0.2, system = \"…\" }"

    def refused_examples(self) -> list[Any]:
        return ["x", 7, [], {"no_such_field": 1}, {"temperature": "warm"}, {"model": "m"}]


def _unknown(name: str) -> Refusal:
    near = nearest(name, SETTABLE)
    remedy = MEANT.get(name) or (f"did you mean `{near}`?" if near else f"it may hold {', '.join(SETTABLE)}")
    return Refusal(f"`set` of [[alias]] cannot hold a field `{name[:40]}`", remedy, (name,))


class FieldName(Text):
    """The name of a request's field that it can do without."""

    def __init__(self) -> None:
        super().__init__(empty=False, like="the name of a request field")

    def check(self, value: Any) -> str:
        name = super().check(value)
        if name in NEEDED:
            raise Refusal(f"{show(name)} cannot be taken out of a request", "name a field that it can do without")
        return name

    def refused_examples(self) -> list[Any]:
        return [*super().refused_examples(), *NEEDED]


FIELDS = (
    Setting("name", Text(NAME, like="a name of letters, digits and - _ . such as \"fast\"", empty=False), None,
            required=True,
            doc="The name that clients use."),
    Setting("model", Text(empty=False), None, required=True,
            doc="The model it stands for."),
    Setting("set", RequestFields(), None,
            doc="Request fields that are set when the caller did not."),
    Setting("strip", ListOf(FieldName()), (),
            doc="Request fields that are taken out."),
)
