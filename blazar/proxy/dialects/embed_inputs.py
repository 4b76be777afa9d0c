"""What is to be embedded, as clients of every dialect send it: a text, texts, token ids, or lists of token ids."""

from typing import Any, NoReturn

from blazar.errors import RequestRefused
from blazar.proxy.dialects.fields import integer, refuse
from blazar.proxy.json import name_of

WANTED = "a string, a list of strings, a list of token ids, or a list of such lists"


def texts_or_tokens(given: Any, field: str) -> list[str] | list[list[int]]:
    """`given`, the value of `field`, as a list of texts or of lists of token ids. Raises RequestRefused."""
    if isinstance(given, str):
        return [_text(given, field)]
    if not isinstance(given, list):
        raise RequestRefused(f"`{field}` must be {WANTED}, not {name_of(given)}")
    if not given:
        raise RequestRefused(f"`{field}` is an empty list: send at least one text to embed")
    if is_token(given[0]):
        return [_tokens(given, field)]
    if isinstance(given[0], str):
        return [_text(item, f"{field}[{position}]") for position, item in enumerate(given)]
    return [_tokens(item, f"{field}[{position}]") for position, item in enumerate(given)]


def dimensions(payload: dict[str, Any]) -> int:
    """How many numbers a vector may have; 0 when the request does not say. Raises RequestRefused."""
    wanted = integer(payload, "dimensions")
    if wanted is not None and wanted < 1:
        refuse("dimensions", "a whole number from 1 on", wanted)
    return wanted or 0


def is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _text(item: Any, where: str) -> str:
    if not isinstance(item, str):
        _mixed(item, where, "a string, like the first one")
    if not item:
        raise RequestRefused(f"`{where}` is an empty string, and nothing cannot be embedded: leave it out")
    return item


def _tokens(item: Any, where: str) -> list[int]:
    if not isinstance(item, list):
        _mixed(item, where, WANTED if where.endswith("[0]") else "a list of token ids, like the first one")
    if not item:
        raise RequestRefused(f"`{where}` is an empty list of token ids, and nothing cannot be embedded: leave it out")
    for position, token in enumerate(item):
        if not is_token(token):
            _mixed(token, f"{where}[{position}]", "a token id, a whole number from 0 on")
    return item


def _mixed(item: Any, where: str, wanted: str) -> NoReturn:
    raise RequestRefused(f"`{where}` must be {wanted}, not {name_of(item)}")
