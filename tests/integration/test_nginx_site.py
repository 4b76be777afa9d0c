"""etc/nginx/blazar.conf: what a client gets through a real nginx, with this very file, over HTTP/2 and HTTP/1.1."""

import base64
import contextlib
import json
import re
import socket
import subprocess
import threading

import pytest

from tests.support.certificates import certificate
from tests.support.fake_supervisor import eventually
from tests.support.fronts import audit
from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, read_until
from tests.support.h2_streams import Streams
from tests.support.needs import need
from tests.support.nginx_site import Site
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event, hello_world, json_answer
from tests.support.shell import free_port
from tests.support.tiny_mmproj import png

CONFIG = {"keys": [{"name": "ann", "key": "sk-ann"}], "trusted_proxies": ["127.0.0.1"]}
KEY = b"Authorization: Bearer sk-ann\r\n"
CLIENT = "127.0.0.77"
"""An address of this machine that is not nginx's."""
IDLE = 200


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    need("curl")
    with GatewayUnderTest(tmp_path_factory.mktemp("gateway"), CONFIG, sees=True) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


@pytest.fixture(scope="module")
def site(tmp_path_factory, shared, pair):
    with Site(tmp_path_factory.mktemp("nginx"), shared.supervisor.port, pair) as running:
        yield running
    assert "[alert]" not in running.errors() and "[warn]" not in running.errors()


def question(dialect, **more):
    path, body = ASK[dialect]
    return path, {**body, "stream": True, **more}


@contextlib.contextmanager
def asking(site, dialect, *more):
    """A stream that curl gets over HTTP/2; what is left of it goes at the end."""
    process = subprocess.Popen(site.curl(*question(dialect), *more), stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def read_words(process, *words):
    """What curl has shown up to these words."""
    shown = b""
    while not all(word in shown for word in words):
        piece = process.stdout.read1(65536)
        assert piece, shown
        shown += piece
    return shown


def run(site, path, body=None, *more, **options):
    done = subprocess.run(site.curl(path, body, "-w", "\n%{http_version} %{http_code}", *more, **options),
                          capture_output=True, timeout=90)
    shown, _, told = done.stdout.rpartition(b"\n")
    return shown, told.decode().split()


def test_it_speaks_http_2_and_tells_browsers_what_they_may(site, gateway):
    shown, told = run(site, *ASK["openai"], "-i")
    head = shown.partition(b"\r\n\r\n")[0].decode().lower()
    assert told == ["2", "200"] and b"Hello world" in shown
    for line in ("strict-transport-security: max-age=31536000", "x-content-type-options: nosniff", "server: nginx\r",
                 "content-security-policy: default-src 'none'; frame-ancestors 'none'", "referrer-policy: no-referrer"):
        assert line in head, line


@pytest.mark.parametrize("dialect", ASK)
def test_each_token_comes_when_it_is_made(site, gateway, dialect):
    """The child makes the next one only when the client has the one before."""
    seen = [threading.Event(), threading.Event()]

    def play(talk):
        talk.send(STREAM_HEAD + chunked(event(delta("one", role="assistant")), last=False))
        assert seen[0].wait(30)
        talk.send(chunked(event(delta(" two")), last=False))
        assert seen[1].wait(30)
        talk.send(chunked(event(delta(" three", finish="stop")), b"data: [DONE]\n\n"))
    gateway.child.play = play
    with asking(site, dialect, "-H", "Accept-Encoding: gzip") as process:
        assert b"two" not in read_words(process, b"one")
        seen[0].set()
        assert b"three" not in read_words(process, b"two")
        seen[1].set()
        read_words(process, b"three")
        assert process.wait(30) == 0


@pytest.mark.parametrize("begun", [b"", STREAM_HEAD + chunked(event(delta("one")), last=False)],
                         ids=["prompt", "stream"])
def test_a_client_that_leaves_ends_the_childs_work(site, gateway, begun):
    asked, closed = threading.Event(), threading.Event()

    def play(talk):
        talk.send(begun)
        asked.set()
        assert talk.client_closes(30)
        closed.set()
    gateway.child.play = play
    with asking(site, "openai") as process:
        assert asked.wait(30)
        if begun:
            read_words(process, b"one")
    assert closed.wait(30)
    eventually(lambda: audit(gateway)[-1]["client_gone"], 20)


def test_one_stream_of_a_connection_ends_alone(site, gateway):
    """Two requests in one connection of HTTP/2: the first is given up by its client, the second goes on."""
    given_up = threading.Event()

    def play(talk):
        talk.send(STREAM_HEAD + chunked(event(delta("begun")), last=False))
        if b"leaves" in talk.request.body:
            assert talk.client_closes(30)
            given_up.set()
        else:
            assert given_up.wait(30)
            talk.send(chunked(event(delta(" whole", finish="stop")), b"data: [DONE]\n\n"))
    gateway.child.play = play
    with Streams(site.port, site.trust) as streams:
        for stream, word in ((1, "leaves"), (3, "stays")):
            path, body = question("openai", messages=[{"role": "user", "content": word}])
            streams.post(stream, path, json.dumps(body).encode(), authorization="Bearer sk-ann")
        for stream in (1, 3):
            streams.read_until(stream, b"begun")
        streams.reset(1)
        assert given_up.wait(30)
        streams.read_until(3, b"[DONE]")


def test_a_gateway_that_dies_leaves_no_whole_looking_answer(tmp_path, pair):
    need("curl")
    with GatewayUnderTest(tmp_path, CONFIG) as gateway, Site(tmp_path, gateway.supervisor.port, pair) as site:
        gateway.child.play = lambda talk: (
            talk.send(STREAM_HEAD + chunked(event(delta("one")), last=False)), talk.client_closes(30))
        with asking(site, "openai") as process:
            read_words(process, b"one")
            gateway.supervisor.kill()
            process.stdout.read()
            assert process.wait(30) != 0


def test_25_megabytes_with_a_picture_pass_and_leave_no_file(site, gateway, tmp_path):
    picture = png(9, 8, 7, side=2)
    picture += b"\0" * (19_000_000 - len(picture))
    url = f"data:image/png;base64,{base64.b64encode(picture).decode()}"
    messages = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]
    (tmp_path / "body").write_text(json.dumps({"model": MODEL, "messages": messages}))
    shown, told = run(site, "/v1/chat/completions", None, "--data-binary", f"@{tmp_path}/body", "-H",
                      "Content-Type: application/json")
    assert told == ["2", "200"] and b"Hello world" in shown
    assert len(gateway.child.received[-1].body) > 25_000_000
    assert list((site.folder / "body").iterdir()) == []


def test_an_answer_waits_for_a_slow_client_in_no_file(site, gateway):
    gateway.child.play = lambda talk: talk.send(json_answer(b'{"choices":[],"x":"%b"}' % (b"y" * 12_000_000)))
    shown, told = run(site, *ASK["openai"], "--limit-rate", "20M")
    assert told == ["2", "200"] and len(shown) > 12_000_000
    assert "temporary file" not in site.errors()


def test_a_body_over_the_limit_is_refused_by_blazar_before_it_has_come(site, gateway):
    with site.connect() as sock:
        sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 70000000\r\n%b\r\n{"
                     % KEY)
        told = read_until(sock, b"}}")
    assert b" 413 " in told.split(b"\r\n")[0] and b"max_body_mb" in told


def test_idle_clients_cost_blazar_nothing(site, gateway):
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(site.connect()) for _ in range(IDLE)]
        with asking(site, "ollama") as process:
            read_words(process, b"Hello", b"world")
        gateway.child.received.clear()
        idle[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in read_until(idle[-1], b"}")
        assert connections(gateway.supervisor.port) <= 33  # what nginx keeps, and this one


def connections(port):
    """Those of this machine that are established with a server at `port`."""
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


@pytest.mark.parametrize("path", ["/v1/realtime", "/api/chat"])
def test_a_websocket_upgrade_reaches_blazar_which_says_what_it_has_instead(site, gateway, path):
    with site.connect() as sock:
        sock.sendall(b"GET %b HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n%b"
                     b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
                     % (path.encode(), KEY))
        told = read_until(sock, b"}")
    assert re.match(rb"HTTP/1\.1 40[45] ", told) and b'"error"' in told and path.encode() in told


def test_a_websocket_passes(tmp_path, pair):
    """Of Blazar's routes none is a WebSocket yet, so a server stands in its place that switches, and echoes."""
    with socket.create_server(("127.0.0.1", 0)) as server, \
            Site(tmp_path, server.getsockname()[1], pair) as site, site.connect() as client:
        client.sendall(b"GET /v1/realtime?model=m HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\n"
                       b"Upgrade: websocket\r\n\r\n")
        server.settimeout(30)
        behind = server.accept()[0]
        behind.settimeout(30)
        with behind:
            head = read_until(behind, b"\r\n\r\n").lower()
            assert b"\r\nconnection: upgrade\r\n" in head and b"\r\nupgrade: websocket\r\n" in head
            behind.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
            read_until(client, b"\r\n\r\n")
            for _ in range(2):
                client.sendall(b"\x81\x85abcdhello")
                behind.sendall(read_until(behind, b"hello")[::-1])
                assert read_until(client, b"\x85\x81") == b"hello"[::-1] + b"dcba\x85\x81"


def test_the_clients_own_address_is_known_and_cannot_be_made_up(site, gateway):
    told = threading.Event()

    def play(talk):
        assert told.wait(30)
        hello_world(talk)
    gateway.child.play = play
    lie = ("-H", "X-Forwarded-For: 203.0.113.9", "--interface", CLIENT)
    with asking(site, "openai", "-H", "X-Request-Id: through", *lie):
        assert client_of(gateway, "through") == CLIENT
        path, body = question("openai")
        direct = subprocess.Popen(["curl", "-sN", f"http://127.0.0.1:{gateway.supervisor.port}{path}", "-d",
                                   json.dumps(body), "-H", "Authorization: Bearer sk-ann", "-H",
                                   "X-Request-Id: direct", *lie], stdout=subprocess.DEVNULL)
        assert re.fullmatch(rf"{CLIENT}:\d+", client_of(gateway, "direct"))
        told.set()
        assert direct.wait(30) == 0
    eventually(lambda: "through" in [line["id"] for line in audit(gateway)], 20)
    line = eventually(lambda: [line for line in site.lines() if line.endswith(" through")], 20)
    assert line[0].startswith(f"{CLIENT} [") and '"POST /v1/chat/completions" 200 ' in line[0]


def client_of(gateway, id):
    """Whom `blazar requests` names, once the request is under way; the supervisor hides addresses by `pii_scrub`."""
    link = gateway.supervisor.link()

    def look():
        rows = link.ask("requests", 10, key=None, finished=0, cancel=None)["requests"]
        return next((row["client"] for row in rows if row["id"] == id), None)
    return eventually(look, 20)


def test_keys_in_the_query_are_not_logged(site, gateway):
    _, told = run(site, "/v1/models?key=sk-secret-of-a-query", None, "-H", "X-Request-Id: query")
    assert told == ["2", "200"]
    assert eventually(lambda: [line for line in site.lines() if line.endswith(" query")], 20)
    assert "sk-secret" not in site.log.read_text()


def test_blazars_own_errors_pass_as_they_are(site, gateway):
    shown, told = run(site, *ASK["anthropic"], key="wrong")
    assert told == ["2", "401"] and json.loads(shown)["type"] == "error"
    gateway.child.play = lambda talk: talk.send(json_answer(b'{"error":{"message":"no"}}', "500 Internal Server Error"))
    path, body = ASK["ollama"]
    shown, told = run(site, path, body)
    assert told == ["2", "502"] and "nginx" not in json.loads(shown)["error"]


def test_without_keys_a_foreign_name_is_refused_with_words(tmp_path, pair):
    """nginx passes the name on, so a server that nobody gave keys is not open to the network by accident."""
    need("curl")
    with GatewayUnderTest(tmp_path) as gateway, Site(tmp_path, gateway.supervisor.port, pair) as site:
        shown, told = run(site, "/v1/models", None, "-H", "Host: ai.example.org")
        assert told == ["2", "403"]
        said = json.loads(shown)["error"]["message"]
        assert "set [[keys]]" in said and "ai.example.org" in said


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "ollama"])
def test_no_blazar_and_a_silent_one_are_told_in_the_dialect(tmp_path, pair, dialect):
    need("curl")
    path, body = question(dialect)
    with Site(tmp_path, free_port(), pair) as site:
        shown, told = run(site, path, body)
        assert told == ["2", "502"] and "systemctl status blazar" in words(dialect, shown)
    hasty = {"proxy_read_timeout 3900s;": "proxy_read_timeout 1s;"}
    with socket.create_server(("127.0.0.1", 0)) as silent, \
            Site(tmp_path, silent.getsockname()[1], pair, **hasty) as site:
        shown, told = run(site, path, body, "-i")
        head, _, shown = shown.partition(b"\r\n\r\n")
        assert told == ["2", "504"] and "proxy_read_timeout" in words(dialect, shown)
        assert b"content-type: application/json" in head and b"strict-transport-security" in head


def words(dialect, shown):
    error = json.loads(shown)["error"]
    return error if dialect == "ollama" else error["message"]
