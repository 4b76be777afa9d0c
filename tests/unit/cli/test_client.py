"""How a verb finds its daemon and what it makes of the answers."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from blazar.cli.client import Client, find, refusal, url_of
from blazar.errors import ApiKeyRefused, BlazarError, CertificateUntrusted, DaemonUnreachable, NoTls, UsageRefused
from blazar.paths import Paths
from blazar.tls import server_context
from tests.support.certificates import certificate


@pytest.mark.parametrize(("text", "url"), [
    ("box:8080", "http://box:8080"),
    ("box", "http://box:11435"),
    (":8080", "http://127.0.0.1:8080"),
    ("0.0.0.0:8080", "http://127.0.0.1:8080"),
    ("0.0.0.0", "http://127.0.0.1:11435"),
    ("::1", "http://[::1]:11435"),
    ("[::1]:8080", "http://[::1]:8080"),
    ("[::]:8080", "http://[::1]:8080"),
    ("http://box:8080/", "http://box:8080"),
    ("https://box/blazar/", "https://box/blazar"),
    (" box:1 ", "http://box:1"),
])
def test_blazar_host_in_every_spelling(text, url):
    assert url_of(text) == url


@pytest.mark.parametrize("text", ["box:http", "ftp://box", "http://", "box:70000", "http://[::1", "///"])
def test_a_target_that_names_no_server_is_refused(text):
    with pytest.raises(UsageRefused, match="host:port"):
        url_of(text)


def test_the_environment_decides_before_the_configuration_is_read(tmp_path):
    def unread():
        raise AssertionError("configuration loaded")
    client = find({"BLAZAR_HOST": "box:1"}, Paths(tmp_path), unread)
    assert (client.url, client.named) == ("http://box:1", True)


@pytest.mark.parametrize(("host", "url"), [("127.0.0.1", "http://127.0.0.1:5"), ("0.0.0.0", "http://127.0.0.1:5"),
                                           ("::", "http://[::1]:5"), ("::1", "http://[::1]:5")])
def test_without_a_daemon_the_configuration_tells(tmp_path, host, url):
    client = find({"BLAZAR_HOST": ""}, Paths(tmp_path), lambda: SimpleNamespace(host=host, port=5, tls_cert=""))
    assert (client.url, client.named) == (url, False)


@pytest.mark.parametrize(("body", "words"), [
    (b'{"error": "model gone"}', "model gone"),
    (b'{"error": {"message": "model gone", "type": "x"}}', "model gone"),
    (b'{"type": "error", "error": {"type": "x", "message": "model gone"}}', "model gone"),
    (b"Bad Gateway", "Bad Gateway"),
    (b"<html>\n<head><title>400", "no Blazar has answered, but another web server, with status 502: see that "
     "BLAZAR_HOST names the right port, and https:// where that speaks TLS"),
    (b"", "the daemon answered with status 502 and no words"),
    (b"[1]", "[1]"),
    (b'{"error": null}', '{"error": null}'),
])
def test_error_bodies_become_words(body, words):
    error = refusal(body, 502)
    assert (str(error), error.status) == (words, 502)


class Played(BaseHTTPRequestHandler):
    """A server whose answers stand in `answers` by path; it notes what it was sent."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.seen.append((self.command, self.path, self.headers.get("Authorization"),
                                 self.rfile.read(int(self.headers.get("Content-Length") or 0))))
        status, body = self.server.answers[self.path]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_DELETE = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("", 0), Played) as played:
        played.seen, played.answers = [], {}
        played.url = f"http://127.0.0.1:{played.server_address[1]}"
        threading.Thread(target=played.serve_forever, args=(0.01,), daemon=True).start()
        yield played
        played.shutdown()


@pytest.mark.parametrize("verb", [Client.or_local, lambda client: client.get("/api/tags")])
def test_a_server_without_tls_is_told(server, verb):
    with pytest.raises(NoTls, match="http:// instead of https://"):
        verb(Client(server.url.replace("http://", "https://"), named=True))


def test_key_path_and_body_reach_the_daemon(server):
    server.answers["/pre/api/delete"] = (200, b"")
    assert Client(server.url + "/pre", key="s3cret").delete("/api/delete", {"model": "solo"}) == {}
    assert server.seen == [("DELETE", "/pre/api/delete", "Bearer s3cret", b'{"model": "solo"}')]


def test_a_stream_is_read_line_by_line(server):
    server.answers["/api/chat"] = (200, b'{"a": 1}\n\n{"a": 2}\n')
    assert list(Client(server.url).stream("/api/chat", {})) == [{"a": 1}, {"a": 2}]


def test_an_error_inside_a_stream_is_raised_after_what_came_before(server):
    server.answers["/api/chat"] = (200, b'{"a": 1}\n{"error": "the engine fell over"}\n{"a": 2}\n')
    events = Client(server.url).stream("/api/chat", {})
    assert next(events) == {"a": 1}
    with pytest.raises(BlazarError, match=r"^the engine fell over$"):
        next(events)


def test_a_refused_request_raises_the_daemon_s_words(server):
    server.answers["/api/ps"] = (403, b'{"error": "this API key may not"}')
    with pytest.raises(BlazarError, match="this API key may not") as caught:
        Client(server.url).get("/api/ps")
    assert caught.value.status == 403


@pytest.mark.parametrize(("key", "reason"), [
    (None, "asks for an API key"), ("old", "does not know the API key in BLAZAR_API_KEY")])
def test_a_daemon_that_wants_a_key_is_told_in_words_of_the_command_line(server, key, reason):
    server.answers["/api/ps"] = (401, b'{"error": "send `Authorization: Bearer <key>`"}')
    with pytest.raises(ApiKeyRefused) as caught:
        Client(server.url, key).get("/api/ps")
    assert caught.value.message == f"the daemon at {server.url} {reason}; set BLAZAR_API_KEY to one of its API keys"


def test_an_answer_that_is_not_json_is_told(server):
    server.answers["/api/ps"] = (200, b"<html>hello</html>")
    with pytest.raises(BlazarError, match="is it a Blazar"):
        Client(server.url).get("/api/ps")


def test_a_server_that_refuses_is_still_there(server):
    server.answers["/api/version"] = (401, b"{}")
    assert Client(server.url).answers()


def test_nobody_there():
    client = Client("http://127.0.0.1:9")
    assert not client.answers()
    assert client.or_local() is False
    with pytest.raises(DaemonUnreachable, match=r"http://127\.0\.0\.1:9"):
        client.get("/api/ps")


def test_a_daemon_named_by_the_environment_is_never_replaced_by_this_machine():
    with pytest.raises(DaemonUnreachable):
        Client("http://127.0.0.1:9", named=True).or_local()


def test_a_daemon_of_another_data_dir_never_stands_in_for_the_one_that_was_named(server, tmp_path):
    server.answers["/api/version"] = (200, b"{}")
    port = int(server.url.rpartition(":")[2])
    config = SimpleNamespace(host="127.0.0.1", port=port, tls_cert="")
    assert find({}, Paths(tmp_path), lambda: config).answers()
    client = find({}, Paths(tmp_path), lambda: config, of_these_paths=True)
    assert client.or_local() is False
    with pytest.raises(DaemonUnreachable, match=r"control\.sock"):
        client.delete("/api/delete", {"model": "solo"})
    assert find({"BLAZAR_HOST": server.url}, Paths(tmp_path), lambda: config, of_these_paths=True).answers()


def test_a_server_with_tls_is_asked_when_its_certificate_is_trusted(server, tmp_path, monkeypatch):
    own = certificate(tmp_path)
    server.socket = server_context(str(own.cert), str(own.key)).wrap_socket(server.socket, server_side=True)
    server.answers["/api/ps"] = (200, b'{"models": []}')
    url = server.url.replace("http:", "https:")
    with pytest.raises(CertificateUntrusted, match=r"self.signed certificate; set SSL_CERT_FILE to a copy"):
        Client(url).get("/api/ps")
    monkeypatch.setenv("SSL_CERT_FILE", str(own.cert))
    assert Client(url).get("/api/ps") == {"models": []}
    with pytest.raises(CertificateUntrusted, match="set BLAZAR_HOST to https:// and a name that stands in"):
        Client(url.replace("127.0.0.1", "127.0.0.2")).get("/api/ps")
