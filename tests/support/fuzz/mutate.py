"""Ways to spoil a valid value or its bytes, a little or beyond recognition."""

import json
from random import Random
from typing import Any

NUMBERS = [0, -1, 1, 1.5, -0.0, 5e-324, 1e300, 1.7e308, -1.7e308, 2**31, 2**53 + 1, 2**63, -2**63, 2**64, 10**40]
ODD = [None, True, False, *NUMBERS, "", " ", "x", "\ud800", "\0", "é😀", "5m",
       "http://127.0.0.1/", "data:image/png;base64,AAAA", [], [None], ["x"], [[]], [{}], {}, {"type": "x"},
       {"": None}, {"type": "text", "text": None}, {"role": "tool", "content": []}, "user", "system", "developer",
       "tool", "assistant", "text", "json", "auto", "none", "tool_use", "tool_result", "image", "a/b:c", "x" * 300]
TOKENS = [b"[" * 200, b"]" * 200, b"{" * 200, b'{"a":' * 150, b"NaN", b"-Infinity", b"1e999", b"1" * 5000, b"\\ud800",
          b"\\u0000", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\0", b"\n", b"\r", b'"', b"\\", b",", b":", b"null",
          b"[]", b"{}", b'"model":1,', b'"stream":"x",', b"\xf0\x9f\x98\x80", b" " * 100, b"//", b"'"]


def spoil_value(value: Any, chance: Random) -> Any:
    """`value` with one of its parts replaced, dropped, doubled or wrapped."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.1:
        return _other(value, chance)
    if isinstance(value, list):
        return _spoil_list(list(value), chance)
    changed, key = dict(value), chance.choice(list(value))
    if chance.random() < 0.1:
        changed[chance.choice(["", "x", "type", "role", "content", "mcp", key + "\ud800"])] = changed.pop(key)
    elif chance.random() < 0.1:
        del changed[key]
    else:
        changed[key] = spoil_value(value[key], chance)
    return changed


def _spoil_list(items: list[Any], chance: Random) -> list[Any]:
    place = chance.randrange(len(items))
    roll = chance.random()
    if roll < 0.15:
        items.insert(place, chance.choice(ODD))
    elif roll < 0.3:
        items.insert(place, items[place])
    elif roll < 0.4:
        del items[place]
    elif roll < 0.5:
        chance.shuffle(items)
    else:
        items[place] = spoil_value(items[place], chance)
    return items


def _other(value: Any, chance: Random) -> Any:
    if isinstance(value, int | float) and chance.random() < 0.5:
        return chance.choice(NUMBERS)
    roll = chance.random()
    if roll < 0.1:
        return [value]
    if roll < 0.2:
        return {chance.choice(["type", "text", "x"]): value}
    if roll < 0.25:
        return json.dumps(value)
    return chance.choice(ODD)


def spoil_bytes(data: bytes, chance: Random) -> bytes:
    """`data` with one stretch removed, doubled, overwritten, or something put in between."""
    first = chance.randrange(len(data) + 1)
    last = min(len(data), first + chance.choice([0, 1, 1, 2, 5, 40]))
    roll = chance.random()
    if roll < 0.25:
        middle = b""
    elif roll < 0.45:
        middle = data[first:last] * 2
    elif roll < 0.6:
        middle = bytes([chance.randrange(256)])
    else:
        middle = chance.choice(TOKENS)
    return data[:first] + middle + data[last:]


def as_json(value: Any, chance: Random) -> bytes:
    """`value` as JSON in one of the ways that people write it."""
    escaped = chance.random() < 0.5
    text = json.dumps(value, ensure_ascii=escaped, indent=chance.choice([None, None, None, 1]))
    return text.encode(errors="surrogatepass" if chance.random() < 0.1 else "replace")


def spoiled_json(value: Any, chance: Random) -> bytes:
    """JSON, or what is left of it, made from `value`."""
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
        value = spoil_value(value, chance)
    data = as_json(value, chance)
    if data.startswith(b"{") and chance.random() < 0.1:
        data = b'{"stream":%b,%b' % (chance.choice([b"true", b"false", b"1", b"null"]), data[1:])
    for _ in range(chance.choice([0, 0, 0, 0, 0, 1, 2])):
        data = spoil_bytes(data, chance)
    if chance.random() < 0.02:
        data = data.decode(errors="replace").encode(chance.choice(["utf-16", "utf-32", "utf-16-le"]))
    return data
