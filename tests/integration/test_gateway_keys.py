"""API keys: 401 on the head alone, 403 once the name is known, and nothing before either."""

import hashlib

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


SECRETS = {"Authorization": "Bearer sk-bob", "X-Api-Key": "sk-bob", "X-Goog-Api-Key": "sk-goog",
           "Cookie": "s=sk-cookie", "Proxy-Authorization": "Basic sk-proxy", "X-Forwarded-For": "1.2.3.4",
           "Forwarded": "for=1.2.3.4", "Connection": "X-Foo, keep-alive", "X-Foo": "sk-foo",
           "TE": "trailers", "Keep-Alive": "timeout=9",
           "Upgrade": "h2c"}


@pytest.mark.parametrize("dialect", ASK)
@pytest.mark.parametrize("stream", [False, True])
def test_nothing_of_the_callers_head_reaches_the_child(gateway, dialect, stream):
    """FC-22, the local part: the child sees its own secret and nothing that the caller sent beside the body."""
    gateway.child.play = hello_world
    assert gateway.ask(dialect, SECRETS, stream=stream).status == 200
    received, = gateway.child.received
    assert set(received.fields) == {"host", "content-type", "content-length", "accept", "authorization"}
    assert received.fields["authorization"] == "Bearer s3cret"
    assert b"sk-" not in received.head + received.body and b"1.2.3.4" not in received.head


def test_the_key_is_in_no_file_and_no_answer(gateway):
    tries = [gateway.ask(dialect, {**SECRETS, **change}, **body) for dialect in ASK
             for change, body in [({}, {}), ({}, {"model": "nope"}), ({}, {"messages": 5}), ({"Cookie": "\x7f"}, {}),
                                  ({"Authorization": "Bearer sk-wrong", "X-Api-Key": "sk-wrong"}, {}),
                                  ({"Content-Encoding": "gzip"}, {}), ({"Expect": "200-maybe"}, {})]]
    assert {answer.status for answer in tries} >= {200, 400, 401, 404, 415, 417}
    tries.append(gateway.request("GET", "/metrics", headers=SECRETS))
    assert b'key="bob"' in tries[-1].body
    for answer in tries:
        assert b"sk-" not in answer.body and "sk-" not in str(answer.headers)
    files = [file for file in gateway.supervisor.folder.rglob("*") if file.is_file()]
    assert files
    for file in files:
        assert b"sk-" not in file.read_bytes(), file


@pytest.mark.parametrize(("method", "path"), [("GET", "/metrics"), ("POST", "/api/reload")])
def test_what_is_of_the_whole_server_is_not_for_a_key_of_certain_models(gateway, method, path):
    refused = gateway.request(method, path, headers={"X-Api-Key": "sk-ann"})
    said = refused.body.decode()
    assert refused.status == 403 and "'ann'" in said and "without `models`" in said
    assert "bob" not in said and OTHER not in said


def test_the_numbers_are_for_a_key_of_all_models(gateway):
    assert gateway.request("GET", "/metrics", headers={"X-Api-Key": "sk-bob"}).status == 200
