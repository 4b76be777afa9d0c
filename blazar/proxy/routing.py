"""Falcon, as lean as it may be: it finds the route of our own Request (request.py) and calls its responder.

The responder pushes the answer into the request's sink, and an error handler does what it cannot, so that Falcon has
nothing left to say.
"""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import falcon
from falcon.routing import DefaultRouter
from gunicorn.workers.base_async import ALREADY_HANDLED

from blazar.proxy.request import REQUEST, Request

REST = "/api/requests/"
"""What follows this is one parameter, slashes and all: ids that clients have chosen."""
MOST = 256
"""Responders that are remembered, more than there are routes: a path may be asked for with any method."""


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
    """Falcon's, for which an id of `/api/requests` is one parameter."""

    def find(self, uri: str, req: Any = None) -> Any:
        return super().find(REST + uri[len(REST):].replace("/", "%2F") if uri.startswith(REST) else uri, req)


class Routes(falcon.App):
    """Falcon's application, which looks for the responder of a method and a path without parameters only once."""

    def __init__(self) -> None:
        super().__init__(request_type=request_of, response_type=Answered, router=Router())  # type: ignore[call-overload]
        self._found: dict[tuple[str, str], Any] = {}
        """Responders by method and path."""
        self._answered = Answered()
        self._own: set[Any] = set()

    def add(self, path: str, responders: Mapping[str, Callable[..., None]]) -> None:
        """Route a path to the responders of its methods, which let no error out and answer by themselves."""
        self._own.update(responders.values())
        self.add_route(path, SimpleNamespace(**{f"on_{method.lower()}": responder
                                                for method, responder in responders.items()}))

    def __call__(self, env: Any, start_response: Any) -> Any:
        request = env[REQUEST]
        responder = self._found.get((request.method, request.path))
        if responder is None:
            return super().__call__(env, start_response)
        responder(request, self._answered)
        return ALREADY_HANDLED

    def _get_responder(self, req: Any) -> Any:
        found = super()._get_responder(req)
        responder, params, *_ = found
        if responder in self._own and not params and len(self._found) < MOST:
            self._found[req.method, req.path] = responder
        return found
