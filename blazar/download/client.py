"""The HTTP client: urllib3 with certificates checked, and the proxies that the environment names."""

import contextlib
import socket
import ssl
import threading
import urllib.request
import weakref
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import urllib3
from urllib3.util import make_headers, parse_url

from blazar import __version__
from blazar.errors import DownloadFailed

CONNECT_TIMEOUT = 10.0
"""Seconds a server may take to accept."""

READ_TIMEOUT = 60.0
"""Seconds without a byte after which a connection counts as dead."""

HEADERS = {"User-Agent": f"blazar/{__version__}", "Accept-Encoding": "identity"}
FAILURES = (urllib3.exceptions.HTTPError, OSError)


class Client:
    """Connections to any host, kept while this lives; safe for several threads."""

    def __init__(self, connections: int = 1) -> None:
        self._connections = connections
        self._pools: dict[tuple[str | None, bool], urllib3.PoolManager] = {}
        self._lock = threading.Lock()
        self._open: weakref.WeakSet[Any] = weakref.WeakSet()
        """Connections, in use or not."""
        self._closed = False

    def get(self, url: str, headers: dict[str, str]) -> Any:
        """urllib3's response to one request, following nothing. Raises one of FAILURES when there is none."""
        return self._pool(url).request("GET", url, headers={**HEADERS, **headers}, redirect=False, retries=False,
                                       preload_content=False, decode_content=False,
                                       timeout=urllib3.Timeout(connect=CONNECT_TIMEOUT, read=READ_TIMEOUT))

    def close(self) -> None:
        """Hang up everywhere, also under those who still wait: a server may send beginnings of answers without end."""
        with self._lock:
            self._closed = True
            connections = list(self._open)
        for connection in connections:
            with contextlib.suppress(OSError, AttributeError):  # it may be closed, or not be open yet
                connection.sock.shutdown(socket.SHUT_RDWR)
        for pool in self._pools.values():
            pool.clear()

    def _pool(self, url: str) -> urllib3.PoolManager:
        proxy = proxy_for(url)
        secure = any(address.lower().startswith("https:") for address in (url, proxy or ""))
        with self._lock:
            if (proxy, secure) not in self._pools:
                self._pools[proxy, secure] = self._connected(proxy, secure)
            return self._pools[proxy, secure]

    def _connected(self, proxy: str | None, secure: bool) -> urllib3.PoolManager:
        options: dict[str, Any] = {"maxsize": self._connections, "num_pools": 4}
        if secure:
            # No context of ours: urllib3 1.26 cannot check one against a host that is an IP address.
            options |= {"cert_reqs": "CERT_REQUIRED", "ca_certs": authorities()}
        if proxy is None:
            return self._watched(urllib3.PoolManager(**options))
        credentials = parse_url(proxy).auth
        secret = make_headers(proxy_basic_auth=unquote(credentials)) if credentials else None
        try:
            return self._watched(urllib3.ProxyManager(proxy, proxy_headers=secret, **options))
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise DownloadFailed(url=shown(proxy), reason="it is named as proxy, and only http:// and https:// ones "
                                 "can be used", remedy="correct HTTPS_PROXY, HTTP_PROXY or ALL_PROXY") from error


    def _watched(self, manager: urllib3.PoolManager) -> urllib3.PoolManager:
        """`manager`, all of whose connections are known to `close`."""
        def watched(pool: Any) -> Any:
            class Connection(pool.ConnectionCls):  # type: ignore[misc]
                def connect(connection) -> None:
                    with self._lock:
                        self._open.add(connection)
                    super().connect()
                    if self._closed:
                        raise OSError("the download has ended")

            return type(pool.__name__, (pool,), {"ConnectionCls": Connection})

        manager.pool_classes_by_scheme = {scheme: watched(pool) for scheme, pool
                                          in manager.pool_classes_by_scheme.items()}
        return manager


def proxy_for(url: str) -> str | None:
    """The proxy that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY name for `url`."""
    parts = parse_url(url)
    proxies = urllib.request.getproxies()
    if urllib.request.proxy_bypass(f"{parts.host}:{parts.port}" if parts.port else parts.host or ""):
        return None
    proxy = proxies.get(parts.scheme or "") or proxies.get("all")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy or None


def authorities() -> str | None:
    """The file of certifi's authorities where the system has none of its own; None where it has, or the person has."""
    places = ssl.get_default_verify_paths()
    if places.cafile or (places.capath and any(Path(places.capath).iterdir())):
        return None
    import certifi
    return certifi.where()


def trust() -> ssl.SSLContext:
    """The same certificates for other clients than this one, host names checked."""
    return ssl.create_default_context(cafile=authorities())


def origin(url: str) -> tuple[str, str, int]:
    """Scheme, host and port: who may see what is meant for whom."""
    parts = parse_url(url)
    scheme = (parts.scheme or "").lower()
    return scheme, (parts.host or "").lower().rstrip("."), parts.port or (443 if scheme == "https" else 80)


def shown(url: str) -> str:
    """`url` for people, logs and files: without user, password, query and fragment, which may hold secrets."""
    parts = parse_url(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.host}{port}{parts.path or ''}"
