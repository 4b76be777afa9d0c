"""API keys: 401 on the head alone, 403 once the name is known, and nothing before either."""

import hashlib
import json

import pytest

from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, is_error_of, read_until
from tests.support.scripted_child import hello_world

OTHER = "duo:q8_0"
KEYS = [{"name": "ann", "key": "sk-ann", "models": ["SOLO"]},
        {"name": "bob", "key": "sha256:" + hashlib.sha256(b"sk-bob").hexdigest(), "models": []}]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("keys"), {"keys": KEYS}, installed=(MODEL, OTHER)) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


@pytest.mark.parametrize("dialect", ASK)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"X-Api-Key": "SK-ANN"},
                                     {"Authorization": "Basic sk-ann"}])
def test_without_a_good_key_nothing_happens(gateway, dialect, headers):
    answer = gateway.ask(dialect, headers)
    assert answer.status == 401 and answer.headers["www-authenticate"] == "Bearer"
    assert "API key" in is_error_of(dialect, answer)
    assert gateway.child.received == []


@pytest.mark.parametrize("dialect", ASK)
@pytest.mark.parametrize("headers", [{"Authorization": "Bearer sk-ann"}, {"X-Api-Key": "sk-bob"}])
def test_a_good_key_is_let_in(gateway, dialect, headers):
    assert gateway.ask(dialect, headers, stream=False).status == 200


def test_the_body_is_neither_wanted_nor_waited_for(gateway):
    with gateway.connect() as sock:
        sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
                     b"Authorization: Bearer wrong\r\nExpect: 100-continue\r\n\r\n")
        head = read_until(sock, b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 401 ") and b"Connection: close" in head


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/", 401), ("HEAD", "/", 401), ("GET", "/api/version", 401), ("HEAD", "/api/tags", 401),
    ("GET", "/api/ps", 401), ("GET", "/v1/models", 401), ("DELETE", "/api/delete", 401), ("POST", "/api/show", 401),
    ("GET", "/healthz", 200), ("DELETE", "/v1/models", 405), ("GET", "/api/chat", 405)])
def test_every_route_but_liveness_needs_a_key(gateway, method, path, status):
    assert gateway.request(method, path).status == status


@pytest.mark.parametrize("dialect", ASK)
@pytest.mark.parametrize("spelling", [OTHER, "duo", "DUO:latest", "Duo:Q8_0"])
def test_no_spelling_of_a_forbidden_model_slips_past(gateway, dialect, spelling):
    answer = gateway.ask(dialect, {"X-Api-Key": "sk-ann"}, model=spelling)
    assert answer.status == 403
    message = is_error_of(dialect, answer)
    assert "ann" in message and OTHER in message and "SOLO" in message
    assert gateway.supervisor.notes("ensure_ready") == []


@pytest.mark.parametrize(("method", "path"), [("POST", "/api/show"), ("DELETE", "/api/delete"),
                                              ("POST", "/api/generate")])
def test_other_routes_that_name_a_model_check_it_too(gateway, method, path):
    answer = gateway.request(method, path, {"model": "duo", "keep_alive": 0}, {"X-Api-Key": "sk-ann"})
    assert answer.status == 403
    assert gateway.supervisor.heard == [] or {message["kind"] for message in gateway.supervisor.heard} <= {
        "hello", "beat", "report"}


def test_listings_show_what_the_key_may_use(gateway):
    def names(path, key):
        value = gateway.request("GET", path, headers={"X-Api-Key": key}).json()
        return [model.get("id") or model["name"] for model in value.get("data") or value["models"]]
    for path in ("/v1/models", "/api/tags"):
        assert names(path, "sk-ann") == [MODEL]
        assert names(path, "sk-bob") == [OTHER, MODEL]
    assert gateway.request("GET", f"/v1/models/{OTHER}", headers={"X-Api-Key": "sk-ann"}).status == 403


def test_the_key_reaches_neither_the_child_nor_the_log(gateway):
    gateway.child.play = hello_world
    gateway.ask("openai", {"Authorization": "Bearer sk-bob", "X-Api-Key": "sk-bob"})
    received, = gateway.child.received
    assert b"sk-bob" not in received.head + received.body
    assert "sk-" not in gateway.supervisor.log()
    assert json.loads(received.body) == ASK["openai"][1]
