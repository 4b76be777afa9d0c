"""Falcon, as lean as it may be: it finds the route of our own Request (request.py) and calls its responder.

The responder pushes the answer into the request's sink, and an error handler does what it cannot, so that Falcon has
nothing left to say; and a path without parameters is looked for only once.
"""

from typing import Any

from falcon.routing import DefaultRouter
from gunicorn.workers.base_async import ALREADY_HANDLED

from blazar.proxy.request import REQUEST, Request

REST = "/api/requests/"
"""What follows this is one parameter, slashes and all: ids that clients have chosen."""


def request_of(env: dict[str, Any], options: Any = None) -> Request:
    """What Falcon looks at when it wants a request of its own kind."""
    return env[REQUEST]


class Answered:
    """What it takes for its own answer: one that is made already, which Falcon passes on and does not look into."""

    complete = False
    status = "200 OK"
    stream = ALREADY_HANDLED
    text = data = media = None
    _headers: dict[str, str] = {}

    def __init__(self, options: Any = None) -> None:
        """`options` are those of Falcon's answers."""

    def render_body(self) -> None:
        """There is none but the stream."""

    def _wsgi_headers(self, media_type: str | None = None) -> list[tuple[str, str]]:
        return []


class Router(DefaultRouter):
    """Falcon's, which looks for a path without parameters only once: there are no more of those than routes."""

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, Any] = {}

    def find(self, uri: str, req: Any = None) -> Any:
        return self._found.get(uri) or self._find_new(uri, req)

    def _find_new(self, uri: str, req: Any) -> Any:
        rest = REST + uri[len(REST):].replace("/", "%2F") if uri.startswith(REST) else uri
        found = super().find(rest, req)
        if found is not None and not found[2]:
            self._found[uri] = found
        return found
