"""`HeadFacts`: what the head of a request tells, but for its length.

Clients send the same head again and again, over one connection or many, and what follows from it is worked out once
(wire/familiar.py).
"""

import re
from typing import Any, Final

from blazar.proxy.wire.lean import FIELDS
from blazar.proxy.wire.request_head import authority_of

FACTS: Final = "blazar.facts"
"""Where the environ keeps them, when they are known already."""
EXPECTS: Final = "HTTP_BLAZAR_EXPECT"
"""Where our gunicorn worker puts `Expect`, so that it is answered only once the body is wanted."""
KNOB_PREFIX: Final = "x-blazar-"
"""How the names of the fields begin that are ours."""

_REQUEST_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")


class HeadFacts:
    """Of one head, or of all that are alike; nobody changes what is read here."""

    def __init__(self, environ: dict[str, Any]) -> None:
        self.method: str = environ["REQUEST_METHOD"]
        path = environ.get("PATH_INFO") or "/"
        self.path: str = path if path.isascii() else path.encode("latin-1").decode(errors="replace")
        self.query: str = environ.get("QUERY_STRING", "")
        headers: dict[str, str] = environ.get(FIELDS) or _headers(environ)
        self.headers = headers
        """By lower-case name, without the length."""
        self.host = authority_of(environ.get("RAW_URI", "")) or headers.get("host", "")
        given = headers.get("x-request-id")
        self.given_id = given if given is not None and _REQUEST_ID.fullmatch(given) else None
        """The id that the client has chosen for this request."""
        self.knobs = {name: value for name, value in headers.items() if name.startswith(KNOB_PREFIX)}
        coding = headers.get("content-encoding", "").strip().lower()
        self.coding = coding if coding != "identity" else ""
        self.chunked = "HTTP_TRANSFER_ENCODING" in environ
        self.old = environ.get("SERVER_PROTOCOL") == "HTTP/1.0"
        self.expects: bool = environ.get(EXPECTS, "").lower() == "100-continue" and not self.old
        """The client waits for a word before it sends its body."""
        self.demands = bool(self.coding) or self.expects
        """The body needs more than to be read."""
        self.closing = "close" in headers.get("connection", "").lower()
        self.headless = self.method == "HEAD"
        """The answer is to have no body."""
        self.hosts: Any = None
        """The `HostCheck` that has let the host in."""
        self.cors: tuple[tuple[str, str], ...] = ()
        """What a browser is told about the page that sent this, once the host was let in."""
        self.keys: Any = None
        """The mark of the key ring when it found the API key, so that it looks again once its keys are others."""
        self.api_key: Any = None
        self.account: Any = None
        """The `Account` of that key, where it has limits which answers tell of."""


def _headers(environ: dict[str, Any]) -> dict[str, str]:
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items()
               if name.startswith("HTTP_") and name != EXPECTS}
    if environ.get("CONTENT_TYPE"):
        headers["content-type"] = environ["CONTENT_TYPE"]
    return headers
