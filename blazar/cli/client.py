"""HTTP to a running daemon, for the verbs. Standard library only, so that a verb starts fast.

Which daemon: BLAZAR_HOST when it is set; else the one of this data dir, whose control socket knows the port it
really listens on; else host and port of the configuration.
"""

import contextlib
import http.client
import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from blazar.control import connect
from blazar.errors import ApiKeyRefused, BlazarError, CertificateUntrusted, DaemonUnreachable, NoTls, UsageRefused
from blazar.paths import Paths
from blazar.tls import BUNDLES, client_context

DEFAULT_PORT = 11435
PROBE_TIMEOUT = 3.0
"""Seconds to wait for a daemon that may not be there."""
ANSWER_TIMEOUT = 3600.0
"""Seconds without a byte after which an answer is given up; a first load may take minutes."""

LONGEST_TEXT = 64 << 20
"""Bytes of a text that are read."""

NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
"""What OpenSSL says, by its version, when a plain HTTP server answers."""


class Client:
    """One daemon. Every call opens a connection of its own.

    `named` says that BLAZAR_HOST chose it: then a verb must not quietly work on this machine instead. `absent` says
    that it is known not to run; `url` is then only what to call it.
    """

    def __init__(self, url: str, key: str | None = None, named: bool = False, absent: bool = False) -> None:
        self.url = url
        self.named = named
        self._key = key
        self._absent = absent

    def answers(self) -> bool:
        """Whether a daemon is there."""
        try:
            self._knock()
        except DaemonUnreachable:
            return False
        return True

    def or_local(self) -> bool:
        """True when the daemon answers, False when the verb may work locally; raises when it may do neither."""
        try:
            self._knock()
        except DaemonUnreachable:
            if self.named:
                raise
            return False
        return True

    def _knock(self) -> None:
        """Raises DaemonUnreachable; any other answer is one."""
        try:
            with self._request("GET", "/api/version", None, PROBE_TIMEOUT):
                pass
        except DaemonUnreachable:
            raise
        except BlazarError:
            pass

    def get(self, path: str) -> dict[str, Any]:
        return self._whole("GET", path, None)

    def text(self, path: str) -> str:
        """The text that a GET of `path` brings."""
        with self._request("GET", path, None, ANSWER_TIMEOUT) as response:
            return response.read(LONGEST_TEXT).decode(errors="replace")

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._whole("POST", path, body)

    def delete(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._whole("DELETE", path, body)

    def has(self, path: str) -> bool:
        """Whether a HEAD of `path` finds something."""
        try:
            with self._request("HEAD", path, None, ANSWER_TIMEOUT):
                return True
        except DaemonUnreachable:
            raise
        except BlazarError as error:
            if error.status == 404:
                return False
            raise

    def send(self, path: str, file: BinaryIO, size: int) -> None:
        """POST a file as it is."""
        with self._request("POST", path, None, ANSWER_TIMEOUT, file, size):
            pass

    def stream(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The objects of a line-wise JSON stream as they come. An error inside the stream is raised."""
        with self._request("POST", path, body, ANSWER_TIMEOUT) as response:
            for line in response:
                if line.strip():
                    event = _object(line)
                    if "error" in event:
                        raise BlazarError(_words(line, response.status))
                    yield event

    def _whole(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        with self._request(method, path, body, ANSWER_TIMEOUT) as response:
            return _object(response.read() or b"{}")

    @contextlib.contextmanager
    def _request(self, method: str, path: str, body: Mapping[str, Any] | None, timeout: float,
                 file: BinaryIO | None = None, size: int = 0) -> Iterator[http.client.HTTPResponse]:
        if self._absent:
            raise DaemonUnreachable(url=self.url)
        connection = self._connection(timeout)
        try:
            headers = {"Content-Type": "application/json"} if body is not None else {}
            if self._key:
                headers["Authorization"] = f"Bearer {self._key}"
            if file is not None:
                headers |= {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
            data = file if body is None else json.dumps(body).encode()
            connection.request(method, urlsplit(self.url).path.rstrip("/") + path, data, headers)
            response = connection.getresponse()
            if response.status == 401:
                raise ApiKeyRefused(url=self.url, reason="does not know the API key in BLAZAR_API_KEY" if self._key
                                    else "asks for an API key")
            if response.status >= 400:
                raise refusal(response.read(), response.status)
            yield response
        except ssl.SSLCertVerificationError as error:
            raise self._untrusted(error) from error
        except ssl.SSLError as error:
            raise (NoTls if error.reason in NO_TLS else DaemonUnreachable)(url=self.url) from error
        except (OSError, http.client.HTTPException) as error:
            raise DaemonUnreachable(url=self.url) from error
        finally:
            connection.close()

    def _untrusted(self, error: ssl.SSLCertVerificationError) -> CertificateUntrusted:
        reason = error.verify_message.rstrip(".")
        remedy = f"set {BUNDLES[0]} to a copy of the server's tls_cert file"
        if "mismatch" in reason.lower() or "not valid for" in reason:
            remedy = "set BLAZAR_HOST to https:// and a name that stands in the certificate"
        return CertificateUntrusted(url=self.url, reason=reason, remedy=remedy)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        if parts.scheme == "https":
            return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=timeout,
                                               context=client_context())
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)


def find(env: Mapping[str, str], paths: Paths, config: Callable[[], Any], of_these_paths: bool = False) -> Client:
    """The daemon that the verbs of this call talk to. `config` is loaded only when nothing else tells the port.

    `of_these_paths` says that the data dir was named: then no daemon of another one may stand in for it, or a removal
    would hit the wrong models.
    """
    key = env.get("BLAZAR_API_KEY") or None
    if env.get("BLAZAR_HOST"):
        return Client(url_of(env["BLAZAR_HOST"]), key, named=True)
    running = daemon_status(paths)
    if running is not None:
        return Client(running["url"], key)
    if of_these_paths:
        return Client(str(paths.control_socket), key, absent=True)
    settings = config()
    scheme = "https" if settings.tls_cert else "http"
    return Client(_reachable(f"{scheme}://{_bracketed(settings.host)}:{settings.port}"), key)


def daemon_status(paths: Paths) -> dict[str, Any] | None:
    """What the daemon of this data dir says of itself, or None when none runs."""
    return ask_daemon_of(paths, "status")


def ask_daemon_of(paths: Paths, kind: str, **fields: Any) -> dict[str, Any] | None:
    """The answer of the daemon of this data dir over its control socket; None when none runs, or it refuses."""
    try:
        link = connect(paths.control_socket, timeout=PROBE_TIMEOUT)
    except BlazarError:
        return None
    try:
        return link.ask(kind, timeout=PROBE_TIMEOUT, **fields)
    except BlazarError:
        return None
    finally:
        link.close()


def url_of(text: str) -> str:
    """The URL meant by BLAZAR_HOST: a URL, `host:port`, `host`, `:port` or an IPv6 address."""
    given = text.strip()
    if "://" not in given:
        bare_ipv6 = given.count(":") > 1 and not given.startswith("[")
        given = f"http://{_bracketed(given) if bare_ipv6 else given}"
        default: int | None = DEFAULT_PORT
    else:
        default = None
    try:
        parts = urlsplit(given)
        port = parts.port or default
    except ValueError:
        parts, port = urlsplit("none://"), None
    if parts.scheme not in ("http", "https") or not (parts.hostname or parts.netloc.startswith(":")):
        raise UsageRefused(f"BLAZAR_HOST is {text!r}, which names no server; write host:port, such as "
                           f"127.0.0.1:{DEFAULT_PORT}, or a URL")
    host = _bracketed(parts.hostname or "127.0.0.1")
    return _reachable(f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}")


def refusal(body: bytes, status: int) -> BlazarError:
    """The error of an answer, with the words that the daemon sent."""
    error = BlazarError(_words(body, status))
    error.status = status
    return error


def _words(body: bytes, status: int) -> str:
    """What an error body says, in Ollama's shape ({"error": "..."}) or OpenAI's ({"error": {"message": ...}})."""
    try:
        error = json.loads(body)["error"]
        words = error["message"] if isinstance(error, dict) else error
    except (ValueError, KeyError, TypeError):
        words = None
    if not isinstance(words, str):
        text = body.decode(errors="replace").strip()
        page = text.startswith("<")
        words = (f"no Blazar has answered, but another web server, with status {status}: see that BLAZAR_HOST names "
                 f"the right port, and https:// where that speaks TLS") if page else text[:200]
    return words or f"the daemon answered with status {status} and no words"


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise BlazarError(f"the server sent no JSON object but {text[:80]!r}; is it a Blazar?")
    return value


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _reachable(url: str) -> str:
    """A server that listens everywhere is reached over loopback."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
