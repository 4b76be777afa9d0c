"""Falcon finds responders for requests that are ours, and nothing of its own answer is used."""

from types import SimpleNamespace

import falcon
import pytest
from gunicorn.workers.base_async import ALREADY_HANDLED

from blazar.proxy.request import REQUEST
from blazar.proxy.routing import MOST, Routes


class Asked:
    """What has been asked, by the paths of the table."""

    def __init__(self, routes: Routes) -> None:
        self.routes = routes
        self.met: list[tuple] = []
        routes.add_error_handler((Exception, falcon.HTTPError), self.refused)
        for path in ("/a", "/api/requests/{id}"):
            routes.add_route(path, SimpleNamespace(on_get=self.get))

    def get(self, req, resp, **params):
        self.met.append((req.uri_template, params))

    def refused(self, request, resp, error, params):
        self.met.append((request.uri_template, type(error)))

    def ask(self, method, path):
        request = SimpleNamespace(method=method, path=path, is_websocket=False, uri_template=None)
        said = []
        answer = self.routes({REQUEST: request}, lambda *head: said.append(head))
        assert said == [("200 OK", [])] and answer in (ALREADY_HANDLED, [])
        return self.met.pop()


@pytest.fixture
def asked():
    return Asked(Routes())


def test_each_finds_its_own(asked):
    for _ in range(2):
        assert asked.ask("GET", "/a") == ("/a", {})
        assert asked.ask("GET", "/api/requests/a/b") == ("/api/requests/{id}", {"id": "a%2Fb"})
        assert asked.ask("GET", "/api/requests/c") == ("/api/requests/{id}", {"id": "c"})
        assert asked.ask("POST", "/a") == ("/a", falcon.HTTPMethodNotAllowed)
        assert asked.ask("GET", "/b")[1] in (falcon.HTTPNotFound, falcon.HTTPRouteNotFound)


def test_endless_methods_and_paths_fill_no_memory(asked):
    for number in range(2 * MOST):
        asked.ask(f"M{number}", "/a")
        asked.ask("GET", f"/api/requests/{number}")
        asked.ask("GET", f"/{number}")
    assert len(asked.routes._found) <= MOST
    assert asked.ask("GET", "/a") == ("/a", {})
