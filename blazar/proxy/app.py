"""The gateway as a WSGI application: Falcon finds the route, the resource pushes the answer into the sink.

Every answer, errors included, goes through the sink, which writes the head itself; nothing of what Falcon returns is
used.
"""

import atexit
import errno
import logging
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import falcon
from gunicorn.workers.base_async import ALREADY_HANDLED

from blazar.config.config import Config
from blazar.errors import BlazarError, HostRefused, MethodRefused, RequestRefused, RouteNotFound
from blazar.proxy.astray import instead_of
from blazar.proxy.batches.inner import Inner
from blazar.proxy.exchange import ClientGone, send_whole
from blazar.proxy.gateway import Gateway
from blazar.proxy.head_facts import FACTS, HeadFacts
from blazar.proxy.request import REQUEST, Request, Terms
from blazar.proxy.routes import ROUTES, Route, allowed, dialect_of, foreign, methods, resource_of, spoken
from blazar.proxy.routing import Answered, Routes
from blazar.proxy.wire.lean import CLIENT
from blazar.proxy.wire.request_head import glance
from blazar.proxy.wire.sinks import SocketSink
from blazar.telemetry.metrics import Count, status_class

log = logging.getLogger("blazar.proxy")

Resource = Callable[[Gateway, Request, Route], None]


class Application:
    """The WSGI callable."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._terms = Terms(gateway.max_body, gateway.write_timeout, gateway.proxies, pace=gateway.pace,
                            draining=lambda: gateway.draining)
        self._falcon = Routes()
        self._falcon.add_error_handler((Exception, falcon.HTTPError), self._unrouted)  # type: ignore[call-overload]
        for path in dict.fromkeys(route.path for route in ROUTES):
            self._falcon.add(path, {method: _responder(self, route, resource_of(route))
                                    for method, route in methods(path).items()})
        self._answer: Callable[..., Any] = self._falcon.__call__
        """Bound, which spares every call the search for it."""

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        facts = environ.get(FACTS) or HeadFacts(environ)
        request = environ[REQUEST] = Request(environ, self._terms, facts)
        if facts.hosts is self.gateway.hosts or self._lets_in(request):
            self._answer(environ, start_response)
        if request.route is None:
            self.counter(dialect_of(request.path), "none", request.sink.status).n += 1
        if request.sink.closing and CLIENT not in environ:  # a gunicorn that is not ours is told to go no further
            raise BrokenPipeError(errno.EPIPE, "the connection has ended with this answer")
        return ALREADY_HANDLED

    def _lets_in(self, request: Request) -> bool:
        """Whether the host is one of ours; else that is said."""
        facts, hosts = request.facts, self.gateway.hosts
        try:
            hosts.check(facts.host)
        except HostRefused as error:
            self.refuse(request, error, dialect_of(request.path))
            return False
        facts.hosts = hosts
        facts.cors = self.gateway.cors.headers(facts.headers.get("origin"))
        return True

    def serve(self, request: Request, route: Route, resource: Resource) -> None:
        """Check the API key, run the resource, and turn what it raises into an answer."""
        request.route = route
        try:
            if not route.open:
                facts = request.facts
                if facts.keys is not self.gateway.keys.mark:
                    self._find_key(facts)
                request.api_key, request.account = facts.api_key, facts.account
            if route.is_shared and foreign(route, request.headers):
                raise RouteNotFound(method=request.method, path=request.path, remedy=instead_of(request.path))
            resource(self.gateway, request, route)
        except Exception as error:
            self.refuse(request, error, route.dialect)

    def _find_key(self, facts: HeadFacts) -> None:
        """The API key of a head, which the key ring has to find only once, until its keys change; and its account."""
        keys = self.gateway.keys
        key = facts.api_key = keys.identify(facts.headers)
        accounts = self.gateway.ledger.accounts
        facts.account = accounts.get(key.name) if key is not None and key.limits.has_rates else None
        facts.keys = keys.mark

    def refuse(self, request: Request, error: Exception, dialect: str,
               headers: tuple[tuple[str, str], ...] = ()) -> None:
        """Tell the client about `error`; once the answer has begun, only the end of the connection can."""
        if not isinstance(error, BlazarError | ClientGone):
            log.error("request %s failed: %s %s", request.id, request.method, request.path, exc_info=error)
        if request.sink.early and not isinstance(error, ClientGone):
            self._tell_inside(request, error, dialect)
            return
        if isinstance(error, ClientGone) or request.sink.started:
            request.sink.gone = request.sink.gone or isinstance(error, ClientGone)
            request.sink.abort()
            return
        status, body = self.gateway.dialects[spoken(dialect, request.headers)].error(error)
        if status == 401:
            headers = (*headers, ("WWW-Authenticate", "Bearer"))
        try:
            request.answer(status, body, headers=(*headers, *_pause(error)))
        except ClientGone:
            request.sink.abort()

    def _tell_inside(self, request: Request, error: Exception, dialect: str) -> None:
        """The head of a stream has left, and nothing else: its first event is the error."""
        sink = request.sink
        try:
            sink.start(200, [])
            sink.closing = True
            sink.write(self.gateway.dialects[dialect].stream_error(error))
            sink.finish()
        except ClientGone:
            sink.abort()

    def counter(self, dialect: str, operation: str, status: int) -> Count:
        """What counts the answers of this status to such requests; 0 is that of who left before the answer began."""
        return self.gateway.metrics.requests.count(dialect, operation, status_class(status) if status else "gone")

    def refuse_head(self, client: Any, began: bytes, error: BlazarError) -> None:
        """Answer a request whose head was refused, as far as `began` tells what it was; nothing may follow it."""
        method, path = glance(began)
        sink = SocketSink(client, closing=True, unread=True, headless=method == "HEAD",
                          write_timeout=self.gateway.write_timeout)
        status, body = self.gateway.dialects[dialect_of(path)].error(error)
        self.counter(dialect_of(path), "none", status).n += 1
        try:
            send_whole(sink, status, [*_pause(error)], body)
        except ClientGone:
            sink.abort()

    def _unrouted(self, request: Request, resp: Answered, error: Exception, params: dict[str, Any]) -> None:
        """Falcon's error handler: unknown paths, wrong methods, and heads that Falcon itself refuses."""
        headers: tuple[tuple[str, str], ...] = ()
        if isinstance(error, falcon.HTTPMethodNotAllowed):
            headers = (("Allow", allowed(request.uri_template or "")),)
            error = MethodRefused(path=request.path, method=request.method, allowed=allowed(request.uri_template or ""))
        elif isinstance(error, falcon.HTTPNotFound):
            error = RouteNotFound(method=request.method, path=request.path, remedy=instead_of(request.path))
        elif isinstance(error, falcon.HTTPError):
            error = RequestRefused(error.title or "this request cannot be read")
        self.refuse(request, error, dialect_of(request.path), headers)


def _pause(error: Exception) -> tuple[tuple[str, str], ...]:
    """The header that tells when to try again, where the error knows."""
    if not isinstance(error, BlazarError) or error.retry_after is None:
        return ()
    return (("Retry-After", str(max(1, math.ceil(error.retry_after)))),)


def _responder(app: Application, route: Route, resource: Resource) -> Callable[..., None]:
    counts: dict[int, Count] = {}

    def respond(req: Request, resp: Answered, **params: str) -> None:
        app.serve(req, route, resource)
        status = req.sink.status
        if status not in counts:
            counts[status] = app.counter(route.dialect, route.operation or route.resource, status)
        counts[status].n += 1
    return respond


def create_app(control: Path, fallback: Callable[[], Config] | None = None) -> Application:
    """The application of a gateway that is connected to the supervisor at `control` and has begun to tick.

    Without a supervisor the settings of `fallback` are used; without a fallback SupervisorGone is raised.
    """
    gateway = Gateway.connect(control, fallback).start()
    atexit.register(gateway.note)  # however the process ends, short of being killed
    application = Application(gateway)
    gateway.background.start(Inner(gateway).ask)
    return application
