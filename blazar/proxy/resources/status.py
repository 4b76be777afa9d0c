"""Answers that need no model: the root that clients probe, the version, liveness, and what a path allows."""

from functools import cache

from blazar import __version__
from blazar.proxy.dialects import ollama_listing
from blazar.proxy.gateway import Gateway
from blazar.proxy.json import dumps
from blazar.proxy.openapi import document
from blazar.proxy.request import Request
from blazar.proxy.routes import ROUTES, Route, allowed

# Drop-in clients compare this very text.
ROOT = b"Ollama is running"


def root(gateway: Gateway, request: Request, route: Route) -> None:
    request.answer(200, ROOT, "text/plain; charset=utf-8")


def version(gateway: Gateway, request: Request, route: Route) -> None:
    request.answer(200, dumps(ollama_listing.version()))


def healthz(gateway: Gateway, request: Request, route: Route) -> None:
    request.answer(200, dumps({"status": "ok", "version": __version__}))


def openapi(gateway: Gateway, request: Request, route: Route) -> None:
    request.answer(200, _openapi())


@cache
def _openapi() -> bytes:
    return dumps(document(ROUTES, __version__))


def options(gateway: Gateway, request: Request, route: Route) -> None:
    """Also the preflight, in which a browser asks whether a page may send its real request."""
    methods = allowed(route.path)
    request.sink.start(204, [*request.own_headers(), ("Allow", methods),
                             *gateway.cors.preflight(request.headers, methods)])
    request.sink.finish()
