"""Nulls in the history and the tools of a chat completion that mean "not set", as serialisers of objects write them.

llama.cpp takes most for what they are, and refuses the whole request for some. Those are left out; a request without
them passes as the bytes it is.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from blazar.proxy.json import dumps

TURN = ("name", "tool_call_id", "reasoning_content")
CALL = ("id", "type")
FUNCTION = ("description", "strict")
_NULL = re.compile(rb'"(?:%s)"\s*:\s*null' % "|".join((*TURN, *CALL, *FUNCTION)).encode())

Object = dict[str, Any]


def without_nulls(body: bytes, read: Callable[[bytes], Object]) -> bytes:
    """The same request without them; `read` makes an object of it. One without any costs a look for a word."""
    if body.find(b"null") < 0 or _NULL.search(body) is None:
        return body
    asked, found = read(body), False
    for part, names in _parts(asked):
        for name in names:
            if name in part and part[name] is None:
                del part[name]
                found = True
    return dumps(asked) if found else body


def _parts(asked: Object) -> Iterator[tuple[Object, tuple[str, ...]]]:
    """The objects that may hold them, each with their names."""
    for turn in _objects(asked.get("messages")):
        yield turn, TURN
        for call in _objects(turn.get("tool_calls")):
            yield call, CALL
    for tool in _objects(asked.get("tools")):
        for function in _objects([tool.get("function")]):
            yield function, FUNCTION


def _objects(value: Any) -> list[Object]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
