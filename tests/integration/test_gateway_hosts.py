"""Names under which the gateway may be reached, and the web pages that may read its answers (FC-21, CORS)."""

import http.client
import json
import socket

import pytest

from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import ASK, GatewayUnderTest, is_error_of, post

KEY = "sk-secret"
PATHS = ["/v1/models", "/api/tags", "/healthz", "/"]
FOREIGN = ["evil.example:11435", "127.0.0.1.evil.example", "evil-localhost", "localhost.evil.example", "192.168.1.7",
           "127.0.0.1.", "2130706433", "[2001:db8::1]:11435"]
LOCAL = ["localhost", "localhost:11435", "LOCALHOST", "localhost.", "app.localhost:1", "127.0.0.1:11435", "127.9.9.9",
         "[::1]:11435", "0.0.0.0:11435", ""]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("hosts"), {"cors_origins": ["https://app.example.com"]}) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("keyed"), {"keys": [{"name": "a", "key": KEY}]}) as gateway:
        yield gateway


# -- FC-21 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("host", FOREIGN)
def test_foreign_names_are_refused(gateway, path, host):
    answer = gateway.request("GET", path, headers={"Host": host})
    assert answer.status == 403 and "localhost" in is_error_of("openai" if path in ("/v1/models", "/healthz", "/") else
                                                               "ollama", answer)


@pytest.mark.parametrize("dialect", ASK)
def test_a_foreign_name_is_refused_before_any_work(gateway, dialect):
    path, body = ASK[dialect]
    got = gateway.raw(post(path, json.dumps(body).encode()).replace(b"Host: localhost", b"Host: evil.example"))
    assert got.startswith(b"HTTP/1.1 403 ") and b"evil.example" in got and b"Connection: close" in got
    assert gateway.child.received == []


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("host", LOCAL)
def test_local_names_are_served(gateway, path, host):
    assert gateway.request("GET", path, headers={"Host": host}).status == 200


@pytest.mark.parametrize(("target", "host", "status"), [
    ("http://evil.example/v1/models", "localhost", 403), ("http://localhost:11435/v1/models", "evil.example", 200),
    ("HTTP://EVIL.EXAMPLE/v1/models", "localhost", 403), ("http://localhost", "localhost", 200)])
def test_a_whole_url_counts_more_than_the_host_field(gateway, target, host, status):
    got = gateway.raw(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert got.startswith(f"HTTP/1.1 {status} ".encode())


def test_with_keys_every_name_is_served(keyed):
    headers = {"Host": "box.example:11435", "X-Api-Key": KEY}
    assert keyed.request("GET", "/v1/models", headers=headers).status == 200
    assert keyed.request("GET", "/v1/models", headers={"Host": "box.example"}).status == 401


def test_what_was_known_of_a_head_ends_with_the_keys(tmp_path):
    """A kept connection whose host was fine while there were keys is looked at anew once the last one has gone."""
    request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer %b\r\n" \
              b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
    body = json.dumps(ASK["openai"][1]).encode()
    with GatewayUnderTest(tmp_path, {"keys": [{"name": "a", "key": KEY}]}) as gateway, \
            socket.create_connection(("127.0.0.1", gateway.supervisor.port), timeout=30) as client:
        def ask():
            client.sendall(request % (KEY.encode(), len(body), body))
            answer = http.client.HTTPResponse(client)
            answer.begin()
            answer.read()
            return answer.status
        assert [ask(), ask()] == [200, 200]
        gateway.supervisor.link().note("keys", keys=[])
        eventually(lambda: ask() == 403)


def test_on_other_addresses_every_name_is_served(tmp_path):
    with GatewayUnderTest(tmp_path, {"host": "0.0.0.0"}) as gateway:
        assert gateway.request("GET", "/api/tags", headers={"Host": "box.lan"}).status == 200


# -- CORS ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://127.0.0.1", "tauri://localhost",
                                    "https://app.example.com"])
@pytest.mark.parametrize(("path", "status"), [("/v1/models", 200), ("/api/nope", 404)])
def test_pages_of_known_origins_may_read(gateway, origin, path, status):
    answer = gateway.request("GET", path, headers={"Origin": origin})
    assert answer.status == status and answer.headers["vary"] == "Origin"
    assert answer.headers["access-control-allow-origin"] == origin
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("dialect", ASK)
@pytest.mark.parametrize("stream", [False, True])
def test_answers_of_models_carry_it_too(gateway, dialect, stream):
    answer = gateway.ask(dialect, {"Origin": "http://localhost:3000"}, stream=stream)
    assert answer.status == 200 and answer.headers["access-control-allow-origin"] == "http://localhost:3000"


@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
@pytest.mark.parametrize("origin", ["https://evil.example", "http://localhost.evil.example", "null", "",
                                    "https://app.example.com.evil.example", "https://app.example.com:8443"])
def test_other_pages_may_not(gateway, method, origin):
    answer = gateway.request(method, "/v1/models", headers={
        "Origin": origin, "Access-Control-Request-Method": "GET"})
    assert answer.status == (200 if method == "GET" else 204) and answer.headers["vary"] == "Origin"
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(("path", "methods"), [("/api/chat", "OPTIONS, POST"), ("/v1/models", "GET, HEAD, OPTIONS"),
                                               ("/api/delete", "DELETE, OPTIONS"), ("/", "GET, HEAD, OPTIONS")])
def test_preflight(keyed, path, methods):
    answer = keyed.request("OPTIONS", path, headers={
        "Origin": "http://localhost:5173", "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type"})
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == "http://localhost:5173"
    assert answer.headers["access-control-allow-methods"] == answer.headers["allow"] == methods
    assert answer.headers["access-control-allow-headers"] == "authorization, content-type"
    assert int(answer.headers["access-control-max-age"]) > 0 and answer.headers["vary"] == "Origin"


def test_options_of_an_unknown_path_and_without_origin(gateway):
    answer = gateway.request("OPTIONS", "/api/nope", headers={"Origin": "http://localhost:1"})
    assert answer.status == 404 and is_error_of("ollama", answer)
    plain = gateway.request("OPTIONS", "/api/chat")
    assert plain.status == 204 and plain.headers["allow"] == "OPTIONS, POST"
    assert "vary" not in plain.headers and "content-length" not in plain.headers


def test_a_401_can_be_read_by_the_page(keyed):
    answer = keyed.request("GET", "/v1/models", headers={"Origin": "http://localhost:1"})
    assert answer.status == 401 and answer.headers["access-control-allow-origin"] == "http://localhost:1"
