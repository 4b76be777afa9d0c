"""An Anthropic Messages request as the chat completion that asks a child the same: one row for each of its fields.

docs/anthropic.md shows the table; a test compares the two.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from blazar.errors import KnobRefused, RequestRefused, ThreadRefused
from blazar.proxy.dialects import shape
from blazar.proxy.dialects.anthropic_tools import tools
from blazar.proxy.dialects.anthropic_turns import messages
from blazar.proxy.dialects.fields import boolean, integer, mapping, number, refuse, strings

PASSED, TRANSLATED, IGNORED, REFUSED = "passed", "translated", "ignored", "refused"
THINKING = ("enabled", "adaptive", "between_tools", "disabled")
DISPLAYS = ("summarized", "omitted")
EFFORTS = ("low", "medium", "high", "xhigh", "max")

Payload = dict[str, Any]


@dataclass(frozen=True)
class Field:
    """What becomes of one field. `read` gives what it adds to the child's request; `prompt` says that it is a part of
    the input that count_tokens counts. `told` is why a field is ignored, or refused, and `remedy` what to do then."""

    fate: str
    read: Callable[[Payload], Payload] | None = None
    prompt: bool = False
    told: str = ""
    remedy: str = ""
    refusal: type[KnobRefused] = KnobRefused


def chat(payload: Payload) -> Payload:
    """The child's request for /v1/messages."""
    return {"stream": True, "stream_options": {"include_usage": True}, **_read(payload, whole=True)}


def prompt(payload: Payload) -> Payload:
    """The part of the child's request that makes the prompt: all that counts as input."""
    return _read(payload, whole=False)


def hides_thoughts(payload: Payload) -> bool:
    """Whether the client wants to see that there was thinking, but not what."""
    return mapping(payload, "thinking").get("display") == "omitted"


def _read(payload: Payload, whole: bool) -> Payload:
    asked: Payload = {}
    for name, field in FIELDS.items():
        if field.fate == REFUSED and payload.get(name):
            raise field.refusal(knob=f"`{name}`", reason=field.told, remedy=field.remedy)
        if field.read is not None and (whole or field.prompt):
            for key, value in field.read(payload).items():
                asked[key] = {**asked.get(key, {}), **value} if isinstance(value, dict) else value
    return asked


def _max_tokens(payload: Payload) -> Payload:
    limit = payload.get("max_tokens")
    if limit is None:
        raise RequestRefused("`max_tokens` is missing: say how many tokens the answer may have, at least 1")
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        refuse("max_tokens", "a whole number, at least 1", limit)
    return {"max_tokens": limit}


def _number(name: str) -> Callable[[Payload], Payload]:
    def read(payload: Payload) -> Payload:
        value = number(payload, name)
        return {} if value is None else {name: value}
    return read


def _stream(payload: Payload) -> Payload:
    boolean(payload, "stream", default=False)
    return {}


def _stops(payload: Payload) -> Payload:
    stops = [stop for stop in strings(payload, "stop_sequences") if stop]
    return {"stop": stops} if stops else {}


def _thinking(payload: Payload) -> Payload:
    thinking = mapping(payload, "thinking")
    if not thinking:
        return {}
    kind = _one_of(thinking, "type", "thinking.", THINKING)
    if thinking.get("display") is not None:
        _one_of(thinking, "display", "thinking.", DISPLAYS)
    asked: Payload = shape.thinking(kind != "disabled")
    budget = integer(thinking, "budget_tokens", "thinking.")
    if budget is not None and budget < 1:
        refuse("thinking.budget_tokens", "a whole number, at least 1", budget)
    if budget is not None and kind == "enabled":
        asked["thinking_budget_tokens"] = budget
    return asked


def _output_config(payload: Payload) -> Payload:
    config = mapping(payload, "output_config")
    asked = _format(mapping(config, "format", "output_config."), "output_config.format.")
    if config.get("effort") is not None:
        asked |= shape.thinking(effort=_one_of(config, "effort", "output_config.", EFFORTS))
    return asked


def _output_format(payload: Payload) -> Payload:
    return _format(mapping(payload, "output_format"), "output_format.")


def _format(wanted: Payload, where: str) -> Payload:
    """A JSON schema for the answer."""
    if not wanted:
        return {}
    if wanted.get("type") != "json_schema":
        refuse(f"{where}type", "\"json_schema\"", wanted.get("type"))
    schema = mapping(wanted, "schema", where)
    return {"response_format": shape.response_format(schema)}


def _one_of(holder: Payload, name: str, where: str, allowed: tuple[str, ...]) -> str:
    value = holder.get(name)
    if not isinstance(value, str) or value not in allowed:
        refuse(where + name, f"{', '.join(allowed[:-1])} or {allowed[-1]}", value)
    return value


def _passed_over(told: str) -> Field:
    return Field(IGNORED, told=told)


def _refused(told: str, remedy: str) -> Field:
    return Field(REFUSED, told=told, remedy=remedy)


FIELDS: dict[str, Field] = {
    "model": Field(PASSED, lambda payload: {"model": payload["model"]}, prompt=True),
    "max_tokens": Field(PASSED, _max_tokens),
    "messages": Field(TRANSLATED, lambda payload: {"messages": messages(payload)}, prompt=True),
    "system": Field(TRANSLATED, prompt=True),  # with the messages, whose first it becomes
    "thinking": Field(TRANSLATED, _thinking, prompt=True),
    "output_config": Field(TRANSLATED, _output_config, prompt=True),
    "output_format": Field(TRANSLATED, _output_format, prompt=True),
    "tools": Field(TRANSLATED, tools, prompt=True),  # later than the format, whose place a forced tool takes
    "tool_choice": Field(TRANSLATED, prompt=True),  # with the tools, which it may narrow
    "stop_sequences": Field(TRANSLATED, _stops),
    "temperature": Field(PASSED, _number("temperature")),
    "top_p": Field(PASSED, _number("top_p")),
    "top_k": Field(PASSED, _number("top_k")),
    "stream": Field(TRANSLATED, _stream),
    "cache_control": _passed_over("the engine keeps the beginning of a conversation by itself"),
    "context_management": _passed_over("the conversation is never shortened behind your back"),
    "compaction": _passed_over("the conversation is never shortened behind your back"),
    "metadata": _passed_over("nobody is watched by it"),
    "service_tier": _passed_over("there is one tier"),
    "speed": _passed_over("there is one speed"),
    "inference_geo": _passed_over("everything runs on this machine"),
    "billing_policy": _passed_over("nothing is billed"),
    "diagnostics": _passed_over("prompts are not compared"),
    "fallbacks": _passed_over("the model that is asked for answers, or nothing does"),
    "fallback_credit_token": _passed_over("nothing is billed"),
    "user_profile_id": _passed_over("API keys say who is who"),
    "workspace_id": _passed_over("there is one workspace"),
    "container": _refused("no code runs on this server", "leave it out, and run tools where you are"),
    "mcp_servers": _refused("this server calls no others for a conversation",
                            "call them where you are, and send their tools in `tools`"),
    "thread": Field(REFUSED, told="conversations are not kept here", remedy="send all of it in `messages`",
                    refusal=ThreadRefused),
}
"""In the order in which they are read."""
