"""The forms of /api/generate: a chat of one turn, a raw prompt, a gap to be filled, and going on from `context`."""

from typing import Any

from blazar.errors import KnobRefused, RequestRefused
from blazar.proxy.dialects.fields import boolean, mapping, refuse, text
from blazar.proxy.dialects.ollama_request import chat_logprobs, common, content_of, logprobs, shape_of
from blazar.proxy.dialects.shape import json_schema
from blazar.store import go_template

CHAT, COMPLETIONS, INFILL = "/v1/chat/completions", "/v1/completions", "/infill"
MOST_TOKEN = (1 << 31) - 1

REFUSED = {
    # field: (why, what to do instead)
    "width": ("no model here makes images in this API", "leave it out"),
    "height": ("no model here makes images in this API", "leave it out"),
    "steps": ("no model here makes images in this API", "leave it out"),
}
NO_PLACE = {
    # a form of the request: the fields that it has no place for
    "`raw`": ("system", "template", "context", "images", "think"),
    "`suffix`": ("system", "template", "context", "images", "think", "format"),
    "`template`": ("context", "images", "think"),
    "`context`": ("images", "think"),
}
TOO_RICH = ("of Go's templates only .System, .Prompt, .Response, conditions and one loop over .Messages are known "
            "here")


def asked_for(payload: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Path and body of the child's request. Raises RequestRefused and its kin."""
    for field, (reason, remedy) in REFUSED.items():
        if payload.get(field):
            raise KnobRefused(knob=f"`{field}`", reason=reason, remedy=remedy)
    if text(payload, "suffix"):
        _refuse_beside("`suffix`", payload)
        return INFILL, _infill(payload)
    if boolean(payload, "raw", default=False):
        _refuse_beside("`raw`", payload)
        return COMPLETIONS, _raw(payload)
    if text(payload, "template"):
        _refuse_beside("`template`", payload)
        return COMPLETIONS, _raw({**payload, "prompt": _filled(payload)})
    if context_of(payload):
        _refuse_beside("`context`", payload)
        return CHAT, _chat({**payload, "think": False})  # a plain completion would show the thoughts as text
    return CHAT, _chat(payload)


def context_of(payload: dict[str, Any]) -> list[int]:
    """The tokens that an earlier answer gave as `context`; none without."""
    given = payload.get("context")
    if given is None:
        return []
    if not isinstance(given, list):
        refuse("context", "the list of tokens that an earlier answer gave", given)
    for position, token in enumerate(given):
        if type(token) is not int or not 0 <= token <= MOST_TOKEN:
            refuse(f"context[{position}]", "a token, a whole number", token)
    return given


def _refuse_beside(form: str, payload: dict[str, Any]) -> None:
    for field in NO_PLACE[form]:
        if payload.get(field):
            raise KnobRefused(knob=f"`{field}`", reason=f"a request with {form} has no place for it",
                              remedy=f"leave it or {form} out, or use /api/chat")


def _chat(payload: dict[str, Any]) -> dict[str, Any]:
    system = text(payload, "system")
    turns: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    turns.append({"role": "user", "content": content_of(text(payload, "prompt"), payload, "")})
    return {**common(payload), **chat_logprobs(payload), "messages": turns, **shape_of(payload)}


def _filled(payload: dict[str, Any]) -> str:
    """The prompt as the request's own template has it."""
    prompt = go_template.filled(text(payload, "template"), text(payload, "system"), text(payload, "prompt"))
    if prompt is None:
        raise KnobRefused(knob="this `template`", reason=TOO_RICH, remedy="send the whole prompt with \"raw\": true, "
                          "or make a model that has the template in Jinja with /api/create")
    return prompt


def _raw(payload: dict[str, Any]) -> dict[str, Any]:
    """A plain completion of the prompt, without a template."""
    asked = {**common(payload), "prompt": text(payload, "prompt")}
    schema = json_schema(payload.get("format"))
    likely = logprobs(payload)
    return {**asked, **({"json_schema": schema} if schema else {}),
            **({"logprobs": likely} if likely else {})}


def _infill(payload: dict[str, Any]) -> dict[str, Any]:
    """What stands between `prompt` and `suffix`; llama.cpp has names of its own there."""
    if boolean(payload, "raw", default=False):
        raise RequestRefused("`raw` and `suffix` exclude each other: the model's own marks stand around a gap")
    asked = common(payload)
    limit = asked.pop("max_tokens", None)
    likely = logprobs(payload)
    return {**asked, "input_prefix": text(payload, "prompt"), "input_suffix": text(payload, "suffix"),
            **({"n_predict": limit} if limit else {}), **({"n_probs": likely} if likely else {})}


def completion_of(asked: dict[str, Any], prompt: list[int]) -> dict[str, Any]:
    """The plain completion of `prompt` that asks the same as the chat completion `asked`."""
    kept = {field: value for field, value in asked.items()
            if field not in ("messages", "response_format", "chat_template_kwargs", "logprobs", "top_logprobs")}
    constraint = mapping(asked, "response_format")
    if constraint:
        kept["json_schema"] = mapping(mapping(constraint, "json_schema"), "schema") or {"type": "object"}
    if asked.get("logprobs"):
        kept["logprobs"] = asked["top_logprobs"]
    return {**kept, "prompt": prompt}
