"""Proxies and certificates, with real ones."""

import ssl

import pytest

from blazar.download.client import origin, proxy_for, shown
from blazar.download.fetch import Source, fetch
from blazar.download.retry import Patience
from blazar.errors import DownloadFailed
from tests.servers.file_server import FileServer
from tests.support.certificates import certificate
from tests.support.downloads import content, names

DATA = content(64 * 1024)
VARIABLES = [form for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY") for form in (name, name.lower())]


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


def quick():
    return Patience(lambda seconds: None)


def test_a_proxy_is_asked_with_its_own_credentials(tmp_path, monkeypatch):
    with FileServer() as proxy:
        proxy.put("/m", DATA)
        monkeypatch.setenv("http_proxy", proxy.base.replace("//", "//user:pass%21@"))
        fetch(Source("http://models.invalid/m", token="secret"), tmp_path / "m")
        (seen,) = proxy.requests
        assert seen.target == "http://models.invalid/m"
        assert seen.headers["proxy-authorization"] == "Basic dXNlcjpwYXNzIQ=="
        assert seen.headers["authorization"] == "Bearer secret"
    assert (tmp_path / "m").read_bytes() == DATA


@pytest.mark.parametrize(("environment", "url", "proxy"), [
    ({}, "http://h/x", None), ({"http_proxy": "http://p:1"}, "http://h/x", "http://p:1"),
    ({"http_proxy": "http://p:1"}, "https://h/x", None), ({"HTTPS_PROXY": "p:1"}, "https://h/x", "http://p:1"),
    ({"all_proxy": "http://p:1"}, "https://h/x", "http://p:1"),
    ({"http_proxy": "http://p:1", "no_proxy": "h.example"}, "http://h.example/x", None),
    ({"http_proxy": "http://p:1", "no_proxy": "example"}, "http://h.example/x", None),
    ({"http_proxy": "http://p:1", "no_proxy": "other"}, "http://h.example/x", "http://p:1"),
    ({"http_proxy": "http://p:1", "NO_PROXY": "*"}, "http://h.example/x", None)])
def test_the_environment_names_the_proxy(monkeypatch, environment, url, proxy):
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    assert proxy_for(url) == proxy


def test_a_proxy_of_another_kind_is_refused_in_words(tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", "socks5://user:pass@127.0.0.1:9")
    with pytest.raises(DownloadFailed, match="correct HTTPS_PROXY, HTTP_PROXY or ALL_PROXY") as caught:
        fetch(Source("http://models.invalid/m"), tmp_path / "m")
    assert "pass" not in str(caught.value)


@pytest.mark.parametrize(("one", "other", "same"), [
    ("http://h/a", "http://H:80/b", True), ("https://h/a", "https://h:443/", True), ("http://h/", "https://h/", False),
    ("http://h:81/", "http://h/", False), ("http://a.h/", "http://h/", False), ("http://h./", "http://h/", True)])
def test_an_origin_is_scheme_host_and_port(one, other, same):
    assert (origin(one) == origin(other)) is same


def test_an_address_is_shown_without_its_secrets():
    assert shown("https://user:pass@h:8443/p/f.gguf?X-Amz-Signature=s#t") == "https://h:8443/p/f.gguf"
    assert shown("http://[::1]:80/x") == "http://[::1]:80/x"


@pytest.fixture(scope="module")
def localhost(tmp_path_factory):
    """A certificate for that name alone, which is its own authority."""
    return certificate(tmp_path_factory.mktemp("certificate"), "localhost", addresses=())


@pytest.fixture
def secure(localhost):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(localhost.cert, localhost.key)
    with FileServer(context, "localhost") as server:
        server.put("/m", DATA)
        yield server


def test_a_certificate_that_nobody_vouches_for_is_refused_at_once(secure, tmp_path):
    words = (r"the certificate of localhost cannot be trusted .*add its authority to the system's, or name a file with "
             "it in SSL_CERT_FILE")
    with pytest.raises(DownloadFailed, match=words):
        fetch(Source(secure.url("/m"), token="secret"), tmp_path / "m")
    assert secure.requests == []
    assert "m" not in names(tmp_path)


@pytest.mark.parametrize("connections", [1, 8])
def test_an_authority_that_the_environment_names_is_trusted(secure, localhost, tmp_path, monkeypatch, connections):
    monkeypatch.setenv("SSL_CERT_FILE", str(localhost.cert))
    data = content(33 * 1024 * 1024)
    secure.put("/large", data)
    assert fetch(Source(secure.url("/large")), tmp_path / "m", connections=connections).size == len(data)
    assert secure.sent("/large") == len(data)


def test_a_certificate_for_another_host_is_refused(secure, localhost, tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(localhost.cert))
    with pytest.raises(DownloadFailed, match="cannot be trusted"):
        fetch(Source(secure.url("/m").replace("localhost", "127.0.0.1")), tmp_path / "m", patience=quick())


def test_no_redirect_leads_out_of_https(secure, localhost, tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(localhost.cert))
    with FileServer() as plain:
        plain.put("/m", DATA)
        secure.put("/m", b"", redirect=plain.url("/m"))
        with pytest.raises(DownloadFailed, match=r"redirects from https to http://127.0.0.1:[0-9]+/m, which anybody"):
            fetch(Source(secure.url("/m")), tmp_path / "m")
        assert plain.requests == []
