"""Reading the fields of a request's body: null means absent, and a wrong type is refused with the field's name."""

from typing import Any, NoReturn

from blazar.errors import BlazarError, RequestRefused
from blazar.proxy.json import dumps, name_of

MOST_PAIRS, LONGEST_KEY, LONGEST_VALUE = 16, 64, 512
"""Of OpenAI's `metadata`: pairs, and characters."""


def refuse(field: str, expected: str, value: Any) -> NoReturn:
    """Refuse `field`, saying what it must be and what it is."""
    shown = dumps(value).decode() if isinstance(value, str | int | float) else name_of(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    raise RequestRefused(f"`{field}` must be {expected}, not {shown}")


def model_name(payload: dict[str, Any]) -> str:
    """The `model` of a request, which every dialect demands."""
    name = payload.get("model")
    if isinstance(name, str) and name and not name.isspace():
        return name
    if name is None:
        raise RequestRefused("`model` is missing: name the model to use, like \"model\": \"smollm2-135m\"")
    refuse("model", "the name of a model", name)


def boolean(payload: dict[str, Any], field: str, default: bool, where: str = "") -> bool:
    value = payload.get(field)
    if value is None:
        return default
    return value if isinstance(value, bool) else refuse(where + field, "true or false", value)


def text(payload: dict[str, Any], field: str, where: str = "") -> str:
    """A string field, '' when absent."""
    value = payload.get(field)
    if value is None:
        return ""
    return value if isinstance(value, str) else refuse(where + field, "a string", value)


def number(payload: dict[str, Any], field: str, where: str = "") -> float | int | None:
    value = payload.get(field)
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    refuse(where + field, "a number", value)


def integer(payload: dict[str, Any], field: str, where: str = "") -> int | None:
    """An integer field; 40.0 is one too."""
    value = number(payload, field, where)
    if value is None or isinstance(value, int):
        return value
    return int(value) if value.is_integer() else refuse(where + field, "a whole number", value)


def objects(payload: dict[str, Any], field: str, where: str = "") -> list[dict[str, Any]]:
    """A list of objects, empty when absent."""
    value = payload.get(field)
    if value is None:
        return []
    if not isinstance(value, list):
        refuse(where + field, "a list of objects", value)
    for position, item in enumerate(value):
        if not isinstance(item, dict):
            refuse(f"{where}{field}[{position}]", "an object", item)
    return value


def strings(payload: dict[str, Any], field: str, where: str = "") -> list[str]:
    """A list of strings, empty when absent."""
    value = payload.get(field)
    if value is None:
        return []
    if not isinstance(value, list):
        refuse(where + field, "a list of strings", value)
    for position, item in enumerate(value):
        if not isinstance(item, str):
            refuse(f"{where}{field}[{position}]", "a string", item)
    return value


def mapping(payload: dict[str, Any], field: str, where: str = "") -> dict[str, Any]:
    """An object field, empty when absent."""
    value = payload.get(field)
    if value is None:
        return {}
    return value if isinstance(value, dict) else refuse(where + field, "an object", value)


def metadata(payload: dict[str, Any]) -> dict[str, str]:
    """The client's own notes about an answer."""
    pairs = mapping(payload, "metadata")
    if len(pairs) > MOST_PAIRS:
        refuse("metadata", f"at most {MOST_PAIRS} pairs", len(pairs))
    for key, value in pairs.items():
        if len(key) > LONGEST_KEY or not isinstance(value, str) or len(value) > LONGEST_VALUE:
            refuse(f"metadata.{key[:LONGEST_KEY]}", f"a string of at most {LONGEST_VALUE} characters, under a name of "
                   f"at most {LONGEST_KEY}", value)
    return pairs


def public(error: Exception) -> BlazarError:
    """What a client may be told: our own errors as they are, anything else only that it happened."""
    return error if isinstance(error, BlazarError) else BlazarError("something went wrong here; the log says what")
