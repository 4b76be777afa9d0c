"""`Cors`: which web pages a browser lets read our answers.

Pages of this machine and of local applications may always, those of `cors_origins` besides; with one of the engine's
own tools, which can run programs, pages of this machine alone. `Origin: null` is what any sandboxed page can send, so
it counts only when it is listed.
"""

import re
from collections.abc import Mapping

from blazar.config.config import Config
from blazar.config.exposure_rules import tools_offered
from blazar.proxy.rates import RATE_HEADERS

MAX_AGE = "600"
"""Seconds for which a browser may remember a preflight."""
EXPOSED = ", ".join(("X-Request-Id", "Retry-After", "X-Blazar-Queue-Position", *RATE_HEADERS))

_LOCAL = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\]|0\.0\.0\.0)(:\d{1,5})?")
_APPLICATION = re.compile(r"(app|file|tauri|vscode-webview|vscode-file)://[!-~]*")
_FIELD_NAMES = re.compile(r"[A-Za-z0-9_-]+(\s*,\s*[A-Za-z0-9_-]+)*")

Headers = tuple[tuple[str, str], ...]


class Cors:
    """Headers for answers to browsers."""

    def __init__(self, config: Config) -> None:
        self._narrow = any(tools_offered(config.as_dict())) or bool(config.server_tools_runtime)
        self._listed = frozenset(origin.lower() for origin in config.cors_origins)

    def allows(self, origin: str) -> bool:
        origin = origin.lower()
        if _LOCAL.fullmatch(origin):
            return True
        if self._narrow:
            return False
        return bool(_APPLICATION.fullmatch(origin)) or origin in self._listed or "*" in self._listed

    def headers(self, origin: str | None) -> Headers:
        """For every answer to a request with this Origin; a foreign one learns nothing."""
        if origin is None:
            return ()
        vary = (("Vary", "Origin"),)
        if not self.allows(origin):
            return vary
        return (*vary, ("Access-Control-Allow-Origin", origin), ("Access-Control-Expose-Headers", EXPOSED))

    def preflight(self, headers: Mapping[str, str], methods: str) -> Headers:
        """For the answer to OPTIONS, besides `headers`; `methods` are those that the path has."""
        origin = headers.get("origin")
        if origin is None or not self.allows(origin):
            return ()
        asked = headers.get("access-control-request-headers", "").strip()
        named = (("Access-Control-Allow-Headers", asked),) if _FIELD_NAMES.fullmatch(asked) else ()
        return (("Access-Control-Allow-Methods", methods), *named, ("Access-Control-Max-Age", MAX_AGE))
