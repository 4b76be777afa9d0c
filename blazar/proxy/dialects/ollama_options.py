"""Ollama's `options` under the names that a child knows, and `keep_alive` in seconds."""

from typing import Any

from blazar.proxy.dialects.fields import integer, mapping, number, refuse, strings
from blazar.proxy.dialects.times import CENTURY
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

MOST_CTX = 1 << 24
"""Tokens of the largest context that may be asked for."""


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


def num_ctx(payload: dict[str, Any]) -> int:
    """Tokens that the model is to be able to read at least; 0 when the client did not say."""
    wanted = integer(mapping(payload, "options"), "num_ctx", "options.") or 0
    return min(max(0, wanted), MOST_CTX)
