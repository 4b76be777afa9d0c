"""The /metrics of one child, read within limits: it may hang, send for ever, or answer with anything."""

import http.client
import io
import re
import socket
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from blazar.supervisor import processes
from blazar.telemetry.exposition import BadPage, Family, read
from blazar.transport import Endpoint

LIMIT = 2.0
"""Seconds from connecting to the last byte."""
LONGEST = 1 << 20
"""Bytes of an answer."""
NONE = (404, 501)
"""How engines answer that tell nothing of themselves."""
UNEXPLAINED = "As the engine tells it."
LENGTH = re.compile(rb"^content-length:[ \t]*(\d+)[ \t]*\r$", re.IGNORECASE | re.MULTILINE)
OURS = "blazar_"
"""No engine's metric begins so."""


class LeftOut(Exception):
    """There is no page of it; the message is the word for why."""


def read_page(endpoint: Endpoint, limit: float = LIMIT) -> list[Family]:
    """What the child of `endpoint` tells of itself. Runs on a thread; raises LeftOut."""
    try:
        text = _body(_fetched(endpoint, time.monotonic() + limit)).decode()
        return [replace(family, meaning=family.meaning or UNEXPLAINED) for family in read(text)
                if not family.name.startswith(OURS)]
    except TimeoutError:
        raise LeftOut("time") from None
    except OSError:
        raise LeftOut("unreachable") from None
    except (BadPage, ValueError, http.client.HTTPException):
        raise LeftOut("garbage") from None


def _fetched(endpoint: Endpoint, until: float) -> bytes:
    """All that comes as the answer, head included. Raises OSError, LeftOut; TimeoutError when the time is over.

    Not every engine closes the connection when it is asked to, so an answer of known length ends with its length.
    """
    address = endpoint.address
    secret = f"Authorization: Bearer {endpoint.secret}\r\n" if endpoint.secret else ""
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as sock:
        sock.settimeout(_left(until))
        sock.connect(address)
        if isinstance(address, str) and not processes.answers_for(sock, endpoint.pid):
            raise LeftOut("unreachable")  # somebody has bound the path since it was looked at
        sock.sendall(f"GET /metrics HTTP/1.1\r\nHost: localhost\r\n{secret}Connection: close\r\n\r\n".encode())
        got, whole = bytearray(), 0
        with suppress(ConnectionResetError):
            while data := _received(sock, until):
                seen = max(0, len(got) - 3)
                got += data
                if len(got) > LONGEST:
                    raise LeftOut("size")
                whole = whole or _whole(got, seen)
                if whole and len(got) >= whole:
                    break
        return bytes(got)


def _whole(answer: bytearray, seen: int) -> int:
    """The bytes that an answer has in all, once its head is there, whose end is not before `seen`; 0 until then.

    An answer that does not tell its length ends with the connection: it is taken to have more than are ever read.
    """
    end = answer.find(b"\r\n\r\n", seen)
    if end < 0:
        return 0
    length = LENGTH.search(answer, 0, end + 2)
    return end + 4 + int(length[1]) if length is not None else LONGEST + 1


def _received(sock: socket.socket, until: float) -> bytes:
    sock.settimeout(_left(until))
    return sock.recv(65536)


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _body(answer: bytes) -> bytes:
    """Raises LeftOut when there is none, HTTPException or ValueError when it is no HTTP, or not whole."""
    if not answer:
        raise LeftOut("unreachable")
    if b"\r\n\r\n" not in answer:
        raise ValueError("its head has no end")
    received: Any = _Received(answer)
    response = http.client.HTTPResponse(received)
    response.begin()
    if response.status in NONE:
        return b""
    if response.status != 200:
        raise LeftOut("unreachable")
    return response.read()


class _Received:
    """Bytes that http.client takes for a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)
