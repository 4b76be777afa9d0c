"""An Ollama request as the chat completion that asks a child the same."""

from typing import Any

from blazar.errors import KnobRefused, RequestRefused
from blazar.proxy.assemble import arguments_of
from blazar.proxy.dialects import images
from blazar.proxy.dialects.fields import integer, mapping, number, objects, refuse, strings, text
from blazar.proxy.dialects.times import CENTURY
from blazar.proxy.exchange import ToolCall
from blazar.proxy.json import dumps
from blazar.units import parse_duration

FOR_EVER = -1.0

OPTIONS = {
    # Ollama's option: (the child's field, how it is read); others, such as num_ctx and num_gpu, shape the load and
    # are settings here.
    "temperature": ("temperature", number), "top_p": ("top_p", number), "top_k": ("top_k", integer),
    "min_p": ("min_p", number), "typical_p": ("typical_p", number), "seed": ("seed", integer),
    "num_keep": ("n_keep", integer), "repeat_last_n": ("repeat_last_n", integer),
    "repeat_penalty": ("repeat_penalty", number), "presence_penalty": ("presence_penalty", number),
    "frequency_penalty": ("frequency_penalty", number), "mirostat": ("mirostat", integer),
    "mirostat_tau": ("mirostat_tau", number), "mirostat_eta": ("mirostat_eta", number),
}

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def keep_alive(value: Any) -> float | None:
    """Seconds to keep a model loaded: a number or a string of seconds, or a duration like '5m'; negative is for ever.

    None when the client did not say. Raises RequestRefused.
    """
    if value is None:
        return None
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        seconds = parse_duration(value) if isinstance(value, str) else float(value)
    except ValueError:
        refuse("keep_alive", "seconds (300) or a duration (\"5m\", \"1h30m\"), negative to keep it for ever", value)
    return FOR_EVER if seconds < 0 or seconds > CENTURY else seconds


def chat(payload: dict[str, Any]) -> dict[str, Any]:
    """The child's request for /api/chat."""
    asked = {**_common(payload), "messages": messages(payload)}
    tools = [_tool(tool, f"tools[{position}]") for position, tool in enumerate(objects(payload, "tools"))]
    if tools:
        asked["tools"] = tools
    return {**asked, **_shape(payload)}


def generate(payload: dict[str, Any]) -> dict[str, Any]:
    """The child's request for /api/generate: a chat of one turn."""
    for knob in ("suffix", "template", "context"):
        if payload.get(knob):
            raise KnobRefused(knob=f"`{knob}`", reason="the model's own chat template makes the prompt",
                              remedy="send the whole prompt with \"raw\": true, or use /api/chat")
    system = text(payload, "system")
    turns: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    turns.append({"role": "user", "content": _content(text(payload, "prompt"), payload, "")})
    return {**_common(payload), "messages": turns, **_shape(payload)}


def raw(payload: dict[str, Any]) -> dict[str, Any]:
    """The child's request for /api/generate with `raw`: a plain completion of the prompt, without a template."""
    if strings(payload, "images"):
        raise KnobRefused(knob="`images`", reason="a raw prompt has no place for them",
                          remedy="leave `raw` out, or use /api/chat")
    asked = {**_common(payload), "prompt": text(payload, "prompt")}
    wanted = payload.get("format")
    if wanted not in (None, ""):
        response_format(wanted)
        asked["json_schema"] = wanted if isinstance(wanted, dict) else {"type": "object"}
    return asked


def messages(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """The turns; calls of tools get the ids that Ollama's clients do not send, and results find theirs in order."""
    turns: list[dict[str, Any]] = []
    open_calls: list[dict[str, Any]] = []
    count = 0
    for position, message in enumerate(objects(payload, "messages")):
        where = f"messages[{position}]."
        role = text(message, "role", where)
        if role not in ROLES:
            refuse(f"{where}role", "system, user, assistant or tool", role)
        turn = {"role": ROLES[role], "content": _content(text(message, "content", where), message, where)}
        if role == "assistant":
            if text(message, "thinking", where):
                turn["reasoning_content"] = message["thinking"]
            calls = [_call(call, count + offset, f"{where}tool_calls[{offset}].")
                     for offset, call in enumerate(objects(message, "tool_calls", where))]
            if calls:
                turn["tool_calls"] = calls
            open_calls = list(calls)
            count += len(calls)
        elif role == "tool":
            turn.update(_answered(message, open_calls, where))
        turns.append(turn)
    return turns


def response_format(wanted: Any) -> dict[str, Any] | None:
    """OpenAI's `response_format` for Ollama's `format`; a schema is handed on as it is."""
    if wanted in (None, ""):
        return None
    if wanted == "json":
        return {"type": "json_object"}
    if isinstance(wanted, dict):
        return {"type": "json_schema", "json_schema": {"name": "format", "strict": True, "schema": wanted}}
    refuse("format", "\"json\" or a JSON schema", wanted)


def _common(payload: dict[str, Any]) -> dict[str, Any]:
    if payload.get("logprobs"):
        raise KnobRefused(knob="`logprobs`", reason="this API does not pass them on yet",
                          remedy="use /v1/chat/completions, which does")
    return {"model": payload["model"], "stream": True, "stream_options": {"include_usage": True}, **options(payload)}


def options(payload: dict[str, Any]) -> dict[str, Any]:
    """Sampling options under the child's names. Like Ollama, it passes over options it does not know."""
    given = mapping(payload, "options")
    asked: dict[str, Any] = {}
    for option, (field, read) in OPTIONS.items():
        value = read(given, option, "options.")
        if value is not None:
            asked[field] = value
    limit = integer(given, "num_predict", "options.")
    if limit is not None and limit > 0:
        asked["max_tokens"] = limit
    if isinstance(given.get("stop"), str):
        given = {"stop": [given["stop"]]}
    stops = [stop for stop in strings(given, "stop", "options.") if stop]
    if stops:
        asked["stop"] = stops
    return asked


def _shape(payload: dict[str, Any]) -> dict[str, Any]:
    """What `format` and `think` ask."""
    asked: dict[str, Any] = {}
    constraint = response_format(payload.get("format"))
    if constraint:
        asked["response_format"] = constraint
    think = payload.get("think")
    if isinstance(think, bool):
        asked["chat_template_kwargs"] = {"enable_thinking": think}
    elif think in ("low", "medium", "high"):
        asked["chat_template_kwargs"] = {"enable_thinking": True, "reasoning_effort": think}
    elif think is not None:
        refuse("think", "true, false, \"low\", \"medium\" or \"high\"", think)
    return asked


def _content(words: str, holder: dict[str, Any], where: str) -> str | list[dict[str, Any]]:
    """A turn's content: its text, and parts when it has images."""
    pictures = [images.part(data, f"`{where}images[{position}]`")
                for position, data in enumerate(strings(holder, "images", where))]
    if not pictures:
        return words
    return [{"type": "text", "text": words}, *pictures] if words else pictures


def _tool(tool: dict[str, Any], where: str) -> dict[str, Any]:
    """A tool as it came, but with an empty list of properties, which some languages send, as an empty object."""
    function = mapping(tool, "function", f"{where}.")
    parameters = mapping(function, "parameters", f"{where}.function.")
    if parameters.get("properties") == []:
        return {**tool, "function": {**function, "parameters": {**parameters, "properties": {}}}}
    mapping(parameters, "properties", f"{where}.function.parameters.")
    return {"type": "function", **tool}


def _call(call: dict[str, Any], number_of_call: int, where: str) -> dict[str, Any]:
    function = mapping(call, "function", where)
    name = text(function, "name", f"{where}function.")
    if not name:
        refuse(f"{where}function.name", "the name of a tool", function.get("name"))
    return {"id": text(call, "id", where) or f"call_{number_of_call}", "type": "function",
            "function": {"name": name, "arguments": _arguments(function.get("arguments"), where)}}


def _arguments(given: Any, where: str) -> str:
    """Arguments of an earlier call as JSON text. Text that was cut off stays visible inside an object."""
    if isinstance(given, str):
        if arguments_of(ToolCall("", "", given)) is None:
            return dumps({"arguments": given}).decode()
        return given or "{}"
    if given is not None and not isinstance(given, dict):
        refuse(f"{where}function.arguments", "an object", given)
    return dumps(given or {}).decode()


def _answered(message: dict[str, Any], open_calls: list[dict[str, Any]], where: str) -> dict[str, Any]:
    """The id and name of a tool's result: as given, else those of the first open call, by name if it has one."""
    given = text(message, "tool_call_id", where)
    name = text(message, "tool_name", where) or text(message, "name", where)
    for call in open_calls:
        if call["id"] == given if given else name in ("", call["function"]["name"]):
            open_calls.remove(call)
            return {"tool_call_id": call["id"], "name": name or call["function"]["name"]}
    if not given and not name:
        raise RequestRefused(f"`{where[:-1]}` is a tool's result, but no call before it waits for one")
    return {"tool_call_id": given or f"call_{name}", "name": name}


