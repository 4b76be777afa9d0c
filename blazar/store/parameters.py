"""The options that may be given with a model (`PARAMETER` in a Modelfile), under Ollama's names."""

import difflib
import math
from collections.abc import Mapping
from typing import Any

from blazar.errors import ModelfileRefused

Kind = tuple[type, float, float]

KINDS: dict[str, Kind] = {
    # name: (type, least, most)
    "num_ctx": (int, 1, 1 << 30), "num_batch": (int, 1, 1 << 20),
    "temperature": (float, 0, 100), "top_p": (float, 0, 1), "top_k": (int, 0, 1 << 30), "min_p": (float, 0, 1),
    "typical_p": (float, 0, 1), "seed": (int, -(1 << 31), (1 << 32) - 1), "num_keep": (int, -1, 1 << 30),
    "num_predict": (int, -2, 1 << 30), "repeat_last_n": (int, -1, 1 << 30), "repeat_penalty": (float, 0, 100),
    "presence_penalty": (float, -100, 100), "frequency_penalty": (float, -100, 100), "mirostat": (int, 0, 2),
    "mirostat_tau": (float, 0, 100), "mirostat_eta": (float, 0, 100), "stop": (str, 0, 0),
}
WITHOUT_EFFECT = frozenset({
    "num_gpu", "num_thread", "main_gpu", "use_mmap", "use_mlock", "numa", "low_vram", "f16_kv", "logits_all",
    "vocab_only", "num_gqa", "embedding_only", "rope_frequency_base", "rope_frequency_scale", "penalize_newline",
    "tfs_z",
})
"""Ollama's options that shape a load, which the configuration does here, or that engines have given up."""
MAX_STOPS = 64
MAX_STOP = 1024
"""Characters of one stop sequence."""


def read_parameters(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The options that count, each of its type, and warnings of those that have no effect here.

    Raises ModelfileRefused for an unknown name or a value of the wrong kind.
    """
    kept: dict[str, Any] = {}
    warnings = []
    for name, value in given.items():
        key = str(name).lower()
        if key in WITHOUT_EFFECT:
            warnings.append(f"PARAMETER {key} has no effect here and is left out; how models are loaded is told in the "
                            f"configuration")
        elif value is not None:
            kept[key] = read_parameter(key, value)
    return kept, warnings


def read_parameter(name: str, value: Any) -> Any:
    """One value, given as text or as JSON. Raises ModelfileRefused."""
    if name not in KINDS:
        near = difflib.get_close_matches(name, KINDS, n=1)
        raise ModelfileRefused(f"there is no option {name[:60]!r}" + (f", did you mean {near[0]}?" if near else
                               "; options are " + ", ".join(sorted(KINDS))))
    kind, least, most = KINDS[name]
    if kind is str:
        return _stops(name, value)
    try:
        number = _number(value, kind)
    except (ValueError, OverflowError):
        wanted = "a whole number" if kind is int else "a number"
        raise ModelfileRefused(f"{name} must be {wanted}, not {str(value)[:60]!r}") from None
    if not least <= number <= most:
        raise ModelfileRefused(f"{name} must be between {least:g} and {most:g}, not {number}")
    return number


def _number(value: Any, kind: type) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    if isinstance(value, str) and len(value) > 40:
        raise ValueError
    number = float(value)
    if not math.isfinite(number) or (kind is int and not number.is_integer()):
        raise ValueError
    return int(number) if kind is int else number


def _stops(name: str, value: Any) -> list[str]:
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) and stop for stop in stops):
        raise ModelfileRefused(f"{name} must be a text or a list of texts, none of them empty")
    if len(stops) > MAX_STOPS or any(len(stop) > MAX_STOP for stop in stops):
        raise ModelfileRefused(f"{name} may hold {MAX_STOPS} texts of {MAX_STOP} characters")
    return stops
