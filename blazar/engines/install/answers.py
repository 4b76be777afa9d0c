"""Small answers of servers that are believed little: an API's JSON, a list of checksums, a catalog."""

import http.client
import re
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from blazar import __version__
from blazar.download.client import trust
from blazar.download.retry import retry_after
from blazar.units import format_bytes, format_duration

READ_TIMEOUT = 20.0
"""Seconds without a byte."""
ANSWER_TIMEOUT = 60.0
"""Seconds for a whole answer."""


class NoAnswer(Exception):
    """Why there is no whole answer, in words that go into a longer message; `status` is the server's refusal."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


def get(url: str, most: int, accept: str = "*/*") -> bytes:
    """The body of the answer at `url`, which has at most `most` bytes. Raises NoAnswer."""
    try:
        request = urllib.request.Request(url, headers={"Accept": accept, "User-Agent": f"blazar/{__version__}"})
        with _opener().open(request, timeout=READ_TIMEOUT) as answer:
            if url.startswith("https:") and not answer.url.startswith("https:"):
                raise NoAnswer("it redirects to a place without https")
            return _read(answer, most)
    except urllib.error.HTTPError as error:
        with error:
            raise NoAnswer(_why(error), error.code) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise NoAnswer(str(getattr(error, "reason", error)) or "no answer") from error


def is_address(url: str) -> bool:
    """Whether `url` is the address of something on a web server, in plain characters."""
    try:
        parts = urlsplit(url)
        return (re.fullmatch(r"[!-~]{1,2000}", url) is not None and parts.scheme in ("http", "https")
                and bool(parts.hostname) and parts.port != 0)
    except ValueError:  # a port or an address that is none
        return False


def _opener() -> urllib.request.OpenerDirector:
    """HTTP and HTTPS, by way of the proxies that the environment names; no redirect leads to anything else."""
    opener = urllib.request.OpenerDirector()
    for handler in (urllib.request.ProxyHandler(), urllib.request.HTTPHandler(),
                    urllib.request.HTTPSHandler(context=trust()), urllib.request.HTTPDefaultErrorHandler(),
                    urllib.request.HTTPRedirectHandler(), urllib.request.HTTPErrorProcessor(),
                    urllib.request.UnknownHandler()):
        opener.add_handler(handler)
    return opener


def _read(answer: Any, most: int) -> bytes:
    deadline, body = time.monotonic() + ANSWER_TIMEOUT, bytearray()
    while piece := answer.read1(65536):
        body += piece
        if len(body) > most:
            raise NoAnswer(f"the answer is over {format_bytes(most)}")
        if time.monotonic() > deadline:
            raise NoAnswer(f"the answer took over {format_duration(ANSWER_TIMEOUT)}")
    length = answer.headers.get("Content-Length", "")
    if re.fullmatch(r"[0-9]{1,16}", length) and len(body) != int(length):
        raise NoAnswer(f"the answer ended after {len(body)} of {length} bytes")
    return bytes(body)


def _why(error: urllib.error.HTTPError) -> str:
    """The words for a refusal; GitHub answers 403 or 429 to whoever asks too often without an account."""
    wait = retry_after(error.headers.get("Retry-After"))
    if error.code in (403, 429) and (wait is not None or error.headers.get("X-RateLimit-Remaining") == "0"):
        reset = error.headers.get("X-RateLimit-Reset", "")
        if wait is None and re.fullmatch(r"[0-9]{1,12}", reset):
            wait = int(reset) - time.time()
        again = f"it answers again in {format_duration(max(1.0, round(wait)))}" if wait and wait > 0 else "wait a while"
        return f"too many questions came from this address ({error.code}), {again}"
    return f"the server answered {error.code} {error.reason}"
