"""The short way into the application: a WSGI environ made straight from a head that passed our check.

It is taken by ordinary requests, which are nearly all. What gunicorn's parser may have something to say about goes
through it (intake.py) and reaches the same application, over the same connection.
"""

from functools import lru_cache
from io import BytesIO
from typing import Any, Final

from gunicorn.http import wsgi

from blazar.proxy.wire.client import Client
from blazar.proxy.wire.request_head import RequestHead

CLIENT: Final = "blazar.client"
"""Where the environ keeps the Client."""
FIELDS: Final = "blazar.fields"
"""Where it keeps the header fields by their lower-case names, without the length."""
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})
LONGEST_TARGET: Final = 2048
UNUSUAL_KEY: Final = ""
UNUSUAL: Final = frozenset({"transfer-encoding", "expect", "upgrade", "blazar-expect"})
"""Fields that are gunicorn's, or the application's, to understand."""


def base_environ(config: Any, listener_name: Any, scheme: str = "http") -> dict[str, Any]:
    """What is the same in every environ of one listener."""
    host, port = listener_name[:2] if isinstance(listener_name, tuple) else ("localhost", "")
    return {**wsgi.base_environ(config), "SERVER_NAME": host, "SERVER_PORT": str(port), "SCRIPT_NAME": "",
            "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": scheme}


def lean_environ(base: dict[str, Any], head: RequestHead) -> dict[str, Any] | None:
    """What an ordinary head tells an environ; None for any other."""
    target, values = head.target, head.values
    if head.old or head.method not in METHODS or not is_plain(target):
        return None
    environ = base.copy()
    environ.update(zip(map(environ_key, values), values.values(), strict=True))
    if UNUSUAL_KEY in environ:
        return None
    path, _, query = target.partition("?")
    environ["REQUEST_METHOD"], environ["PATH_INFO"] = head.method, path
    environ["QUERY_STRING"], environ["RAW_URI"] = query, target
    environ[FIELDS] = {name: value for name, value in values.items() if name != "content-length"}
    return environ


def own_environ(known: dict[str, Any], client: Client, address: Any) -> dict[str, Any]:
    """The same for the connection of one client."""
    return {**known, "REMOTE_ADDR": address[0] if isinstance(address, tuple) else "", "gunicorn.socket": client.sock,
            CLIENT: client}


def body_of(client: Client, began: bytes, length: int) -> "BytesIO | Body":
    """`wsgi.input` of a request with a body of so many bytes; one that is all there needs no reader of ours.

    `began` is what came after the head: what of it is not of this body is left for the client to read.
    """
    if len(began) > length:
        client.unread(began[length:])
        began = began[:length]
    return BytesIO(began) if len(began) == length else Body(client, began, length)


@lru_cache(256)
def is_plain(target: str) -> bool:
    """Whether a target is a path that stands for itself."""
    return target.startswith("/") and not target.startswith("//") and "%" not in target \
        and len(target) <= LONGEST_TARGET


@lru_cache(256)
def environ_key(name: str) -> str:
    """What a field is called in an environ; UNUSUAL_KEY for one that is not ordinary.

    There `X_A` and `X-A` would have one name.
    """
    if "_" in name or name in UNUSUAL:
        return UNUSUAL_KEY
    key = name.upper().replace("-", "_")
    return key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"


class Body:
    """A body of so many bytes, of which `began` are here and the others what the client sends next."""

    def __init__(self, client: Client, began: bytes, length: int) -> None:
        self._client = client
        self._began = began
        self._left = length - len(began)

    def read(self, size: int = -1) -> bytes:
        """At least a byte, whatever the size; empty at the end. Raises OSError when the client left, or stalls."""
        if self._began:
            data, self._began = self._began, b""
            if 0 <= size < len(data):
                data, self._began = data[:size], data[size:]
            return data
        if not self._left:
            return b""
        data = self._client.recv(self._left if size < 0 else min(size, self._left))
        if not data:
            raise ConnectionAbortedError("the client left within its body")
        self._left -= len(data)
        return data
