"""The one door for JSON: what is read is finite, shallow and valid text; what is written is compact UTF-8.

orjson does the work when it is installed, the standard library otherwise, with the same outcome: whatever orjson
refuses is read once more by the standard library, which either accepts it (a lone surrogate) or says what is wrong.
"""

import json
import math
import re
from typing import Any, Final, NoReturn

from blazar.errors import RequestRefused

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]

MAX_DEPTH: Final = 128
NEVER_DEEP: Final = 2 * MAX_DEPTH
"""Bytes of a text in which nothing can be nested deeper."""
MAX_DIGITS: Final = 4300
COUNTED: Final = 4096
"""Bytes up to which a text is counted through; in a longer one, to look for the next is many times faster."""
BOM: Final = b"\xef\xbb\xbf"
_LONE_SURROGATE: Final = re.compile(f"[{chr(0xd800)}-{chr(0xdfff)}]")


class BadJson(ValueError):
    """Bytes that are not JSON we accept; the text says what is wrong and where."""


def loads(body: bytes | str) -> Any:
    """The value of a JSON text; bytes are UTF-8. Raises BadJson.

    Of a repeated key the last wins; a lone surrogate becomes U+FFFD; an integer beyond 64 bits becomes a float.
    """
    if isinstance(body, str):
        body = body.encode(errors="replace")
    if orjson is None:
        return _read(body)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:  # its word for a byte order mark, too
        return _read(body)
    size = len(body)
    if size <= NEVER_DEEP or (size < COUNTED and body.count(b"[") + body.count(b"{") <= MAX_DEPTH):
        return value
    return _shallow(value, body)


def load_object(body: bytes) -> dict[str, Any]:
    """The JSON object that a request's body holds. Raises RequestRefused for anything else."""
    try:
        value = loads(body)
    except BadJson as bad:
        raise RequestRefused(f"the request body is not usable JSON: {bad}") from None
    if not isinstance(value, dict):
        raise not_an_object(value)
    return value


def not_an_object(value: Any) -> RequestRefused:
    return RequestRefused(f"the request body must be a JSON object, like {{\"model\": ...}}; got {name_of(value)}")


def dumps(value: Any) -> bytes:
    """`value` as compact JSON in UTF-8. What JSON cannot say becomes null (NaN) or U+FFFD (a lone surrogate)."""
    if orjson is not None:
        try:
            return orjson.dumps(value)
        except TypeError:  # orjson's word for a lone surrogate or an integer beyond 64 bits
            pass
    try:
        return _ENCODER.encode(value).encode()
    except ValueError:
        return _ENCODER.encode(_sayable(value)).encode()


def name_of(value: Any) -> str:
    """What kind of JSON value this is, for a refusal: 'a list', 'null'."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    kinds = {str: "a string", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return kinds.get(type(value), type(value).__name__)


def _read(body: bytes) -> Any:
    """What the standard library makes of `body`."""
    body = body.removeprefix(BOM)
    if not body.strip():
        raise BadJson("it is empty")
    try:
        value = _shallow(_DECODER.decode(body.decode()), body)
    except UnicodeDecodeError as bad:
        raise BadJson(encoding_problem(body, bad.start)) from None
    except json.JSONDecodeError as bad:
        raise BadJson(encoding_problem(body, None) if b"\0" in body[:4] else str(bad)) from None
    except RecursionError:
        raise too_deep() from None
    return _sayable(value) if body.find(b"\\ud") >= 0 or body.find(b"\\uD") >= 0 else value


def encoding_problem(body: bytes, position: int | None) -> str:
    """Why `body` is not UTF-8, whose byte at `position` cannot be read."""
    if body[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in body[:4]:
        return "it is UTF-16 or UTF-32; send UTF-8"
    return f"it is not UTF-8: byte {body[position or 0]:#04x} at offset {position}"


def _shallow(value: Any, body: bytes) -> Any:
    """`value`, after checking its depth if `body` has brackets enough to be too deep."""
    if _openers(body) <= MAX_DEPTH:
        return value
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)
                 if isinstance(inner, dict | list)]
        if not level:
            return value
    raise too_deep()


def _openers(body: bytes) -> int:
    """How many brackets open in `body`; of a large one no more than matter are counted."""
    if len(body) < COUNTED:
        return body.count(b"[") + body.count(b"{")
    found = 0
    for mark in (b"[", b"{"):
        place = body.find(mark)
        while place >= 0 and found <= MAX_DEPTH:
            found += 1
            place = body.find(mark, place + 1)
    return found


def too_deep() -> BadJson:
    return BadJson(f"it is nested more than {MAX_DEPTH} levels deep")


def _sayable(value: Any) -> Any:
    """`value` without lone surrogates and numbers that are not finite."""
    if isinstance(value, str):
        return _LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_sayable(key): _sayable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_sayable(inner) for inner in value]
    return value


def _constant(name: str) -> NoReturn:
    raise BadJson(f"{name} is not a JSON number; leave the field out or send null")


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise BadJson(f"the number {digits[:20]}{'...' if len(digits) > 20 else ''} is too large")
    return value


def _int(digits: str) -> int | float:
    if len(digits) > MAX_DIGITS:
        raise BadJson(f"a number has {len(digits)} digits, the limit is {MAX_DIGITS}")
    value = int(digits)
    return value if -(1 << 63) <= value < 1 << 64 else _float(digits)


_DECODER: Final = json.JSONDecoder(parse_float=_float, parse_int=_int, parse_constant=_constant)
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
