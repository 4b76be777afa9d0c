import importlib

import pytest

from blazar.proxy.pipeline import ORDER
from blazar.proxy.routes import ROUTES, dialect_of, methods


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_has_a_resource_and_known_stages(route):
    module, _, function = route.resource.partition(".")
    assert callable(getattr(importlib.import_module(f"blazar.proxy.resources.{module}"), function))
    assert route.stages <= set(ORDER)
    assert bool(route.operation) == bool(route.stages), "only what makes a model answer goes through stages"


def test_no_route_twice():
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


def test_only_liveness_and_the_description_are_open():
    assert [route.path for route in ROUTES if route.open] == ["/healthz", "/openapi.json"]


@pytest.mark.parametrize(("path", "allowed"), [("/", {"GET", "HEAD", "OPTIONS"}), ("/nope", set()),
                                               ("/api/chat", {"POST", "OPTIONS"}),
                                               ("/api/delete", {"DELETE", "OPTIONS"})])
def test_methods(path, allowed):
    assert set(methods(path)) == allowed


@pytest.mark.parametrize(("path", "dialect"), [
    ("/v1/messages", "anthropic"), ("/v1/messages/count_tokens", "anthropic"), ("/v1/messagesx", "openai"),
    ("/v1/nope", "openai"), ("/api/nope", "ollama"), ("/apix", "openai"), ("/", "openai")])
def test_dialect_of_unknown_paths(path, dialect):
    assert dialect_of(path) == dialect
