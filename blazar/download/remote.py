"""One file of a server: asking for it or for a part of it, across redirects; its token is for its own origin only."""

import contextlib
import http.client
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urljoin

import urllib3
from urllib3.util import Url, make_headers, parse_url

from blazar.download.client import FAILURES, Client, origin, shown
from blazar.download.retry import retry_after
from blazar.errors import BlazarError, DownloadFailed, DownloadForbidden, DownloadMissing, DownloadUnauthorised

BLOCK = 256 * 1024
"""Bytes of one read, at most."""

REDIRECTS = 10
LONGEST_URL = 8192
LONGEST_VALIDATOR = 256
"""Characters of an ETag that is kept; a longer one is as good as none."""

LARGEST = 1 << 50
"""Bytes: a size beyond this is not believed."""

BREAKS = (*FAILURES, http.client.HTTPException)
"""What a line that breaks in the middle of an answer raises."""


@dataclass(frozen=True)
class ContentRange:
    """`bytes start-end/size`, with `end` one beyond the last byte; start and end are None in `bytes */size`."""

    start: int | None
    end: int | None
    size: int | None


class Answer:
    """A server's answer whose body has not been read."""

    def __init__(self, response: Any) -> None:
        self._response = response
        self.status: int = response.status
        etag = response.headers.get("ETag", "").strip()
        validator = etag or response.headers.get("Last-Modified", "").strip()
        self.validator: str | None = validator if 0 < len(validator) <= LONGEST_VALIDATOR else None
        """ETag, or else Last-Modified: the same for as long as the file is."""
        self.length = _count(response.headers.get("Content-Length"))
        self.range = content_range(response.headers.get("Content-Range"))
        self.has_range = "Content-Range" in response.headers
        self.retry_after = retry_after(response.headers.get("Retry-After"))

    def blocks(self) -> Iterator[bytes]:
        """The body as it comes; ends early when the line does. Raises one of BREAKS."""
        # urllib3 2 can read what there is; 1.26 leaves that to http.client's response, which does not count.
        inner = self._response._fp
        read1 = getattr(self._response, "read1", None) or inner.read1
        left = self.length
        while left is None or left > 0:
            block = read1(BLOCK if left is None else min(BLOCK, left))
            if not block:
                return
            if left is not None:
                left -= len(block)
            if left == 0:
                inner.close()
                self._response.release_conn()
            yield block

    def interrupt(self) -> None:
        """From another thread: let the read that waits end now."""
        try:
            with socket.socket(fileno=os.dup(self._response.fileno())) as connection:
                connection.shutdown(socket.SHUT_RDWR)
        except (OSError, ValueError, AttributeError):
            return

    def close(self) -> None:
        """Hang up, unless the whole body was read."""
        self._response.close()


class Remote:
    """The file at `url`. `token` goes with requests to the origin of `url`, and so do a user and password in it."""

    def __init__(self, url: str, token: str | None, connections: int) -> None:
        parts = _checked(url)
        self.url = url
        self.shown = shown(url)
        self._client = Client(connections)
        self._credentials: dict[str, str] = {}
        if token:
            self._credentials = {"Authorization": f"Bearer {token}"}
        elif parts.auth:
            self._credentials = make_headers(basic_auth=unquote(parts.auth))
        self._resolved: str | None = None

    def get(self, headers: dict[str, str]) -> Answer:
        """Ask with `headers`. The address that redirects lead to is kept, until it no longer works."""
        resolved = self._resolved
        if resolved is not None:
            answer = self._follow(resolved, headers)
            if answer.status not in (401, 403, 404, 410):
                return answer
            answer.close()
        return self._follow(self.url, headers)

    def close(self) -> None:
        self._client.close()

    def refusal(self, answer: Answer) -> BlazarError | None:
        """The error that a status stands for when asking again would not help; None when it may."""
        code = answer.status
        known = bool(self._credentials)
        if code == 401:
            return DownloadUnauthorised(url=self.shown, more=" and did not take the token" if known else "",
                                        remedy="give a token that is valid" if known else "give a token")
        if code == 403:
            return DownloadForbidden(url=self.shown, more="", remedy="see on its page what is asked of you first"
                                     if known else "give a token, or see on its page what is asked of you first")
        if code in (404, 410):
            return DownloadMissing(url=self.shown, code=code)
        if code in (408, 425, 429) or code >= 500:
            return None
        return DownloadFailed(url=self.shown, reason=f"the server answered with status {code}",
                              remedy="see that the address is that of a file")

    def _follow(self, url: str, headers: dict[str, str]) -> Answer:
        for _ in range(REDIRECTS):
            credentials = self._credentials if origin(url) == origin(self.url) else {}
            try:
                response = self._client.get(url, {**headers, **credentials})
            except urllib3.exceptions.SSLError as error:
                if not isinstance(error.args[0], ValueError):
                    raise
                # Only what is said of a certificate, by Python or by urllib3, is a ValueError.
                raise DownloadFailed(url=self.shown, reason=f"the certificate of {origin(url)[1]} cannot be trusted "
                                     f"({error})", remedy="add its authority to the system's, or name a file with it "
                                     "in SSL_CERT_FILE") from error
            location = response.headers.get("Location")
            if response.status not in (301, 302, 303, 307, 308) or not location:
                self._resolved = url if url != self.url else None
                return Answer(response)
            response.close()
            url = self._next(url, location)
        raise DownloadFailed(url=self.shown, reason=f"it leads through more than {REDIRECTS} redirects",
                             remedy="see that the address is right")

    def _next(self, url: str, location: str) -> str:
        try:
            following = urljoin(url, location)
        except ValueError as error:
            raise DownloadFailed(url=self.shown, reason=f"it redirects to {location[:80]!r}, which is no address",
                                 remedy="tell whoever runs the server") from error
        if len(following) > LONGEST_URL:
            raise DownloadFailed(url=self.shown, reason=f"it redirects to an address of more than {LONGEST_URL} "
                                 "characters", remedy="tell whoever runs the server")
        if _checked(following).scheme == "http" and url.lower().startswith("https:"):
            raise DownloadFailed(url=self.shown, reason=f"it redirects from https to {shown(following)}, which "
                                 "anybody on the way could change", remedy="use an address that stays with https")
        return following


def content_range(value: str | None) -> ContentRange | None:
    """A Content-Range header; None when it is missing or makes no sense."""
    found = re.fullmatch(r"bytes (?:([0-9]{1,16})-([0-9]{1,16})|\*)/([0-9]{1,16}|\*)", (value or "").strip())
    if not found:
        return None
    start = int(found[1]) if found[1] else None
    end = int(found[2]) + 1 if found[2] else None
    size = int(found[3]) if found[3] != "*" else None
    if start is not None and end is not None and (start >= end or (size is not None and end > size)):
        return None
    return ContentRange(start, end, size)


def _count(value: str | None) -> int | None:
    return int(value) if value and re.fullmatch(r"[0-9]{1,16}", value.strip()) and int(value) < LARGEST else None


def _checked(url: str) -> Url:
    parts = None
    with contextlib.suppress(urllib3.exceptions.LocationParseError):
        parts = parse_url(url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.host:
        raise DownloadFailed(url=repr(url[:80]), reason="this is no address of a web server",
                             remedy="write it as https://host/path")
    return parts
