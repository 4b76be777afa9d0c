"""Falcon, as lean as it may be: of its own view of a request only what finds the route, and routes that are remembered.

Whoever is routed works with our own Request (request.py), so nothing else of Falcon's is ever asked for.
"""

from typing import Any

import falcon
from falcon.routing import DefaultRouter

REST = "/api/requests/"
"""What follows this is one parameter, slashes and all: ids that clients have chosen."""


class RoutedRequest(falcon.Request):
    """What Falcon itself reads of a request on its way to a responder."""

    def __init__(self, env: dict[str, Any], options: Any = None) -> None:
        self.env = env
        self.options = options
        self.is_websocket = False
        self.uri_template = None
        self.method = env["REQUEST_METHOD"]
        path = env["PATH_INFO"] or "/"
        self.path = path if path.isascii() else path.encode("latin-1").decode(errors="replace")
        if path.startswith(REST):
            self.path = REST + self.path[len(REST):].replace("/", "%2F")


class Router(DefaultRouter):
    """Falcon's, which looks for a path without parameters only once: there are no more of those than routes."""

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, Any] = {}

    def find(self, uri: str, req: Any = None) -> Any:
        found = self._found.get(uri)
        if found is None:
            found = super().find(uri, req)
            if found is not None and not found[2]:
                self._found[uri] = found
        return found
