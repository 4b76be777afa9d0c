"""etc/nginx/blazar.conf under a real nginx: the very file, with other ports and paths."""

import json
import os
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any

from tests.support.certificates import Certificate
from tests.support.needs import need
from tests.support.waiting import until

SITE = Path(__file__).parent.parent.parent / "etc" / "nginx" / "blazar.conf"

AROUND = """\
# What Debian's nginx.conf has around a site.
daemon off;
{user}
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 768; }}
http {{
  gzip on;
  gzip_types application/json text/event-stream;
  access_log {folder}/other.log;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  include {folder}/site.conf;
}}
"""


class Site:
    """`with Site(folder, port_behind, certificate) as site:`; a test that needs one is left out where nginx is not.

    `changes` are other replacements in the file, each of which must be found there.
    """

    def __init__(self, folder: Path, behind: int, pair: Certificate, **changes: str) -> None:
        self._program = need("nginx")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self.folder = folder
        self.log = folder / "blazar.log"
        self.trust = pair.cert
        text = SITE.read_text()
        live = "/etc/letsencrypt/live/ai.example.org"
        for old, new in {"server 127.0.0.1:11435;": f"server 127.0.0.1:{behind};",
                         "listen 443 ssl http2;": f"listen 127.0.0.1:{self.port} ssl http2;",
                         "listen [::]:443 ssl http2;": f"listen [::1]:{self.port} ssl http2;" if _has_ipv6() else "",
                         f"{live}/fullchain.pem": str(pair.cert), f"{live}/privkey.pem": str(pair.key),
                         "/var/log/nginx/blazar.log": str(self.log), **changes}.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (folder / "site.conf").write_text(text)
        (folder / "nginx.conf").write_text(AROUND.format(folder=folder, user="user root;" if not os.geteuid() else ""))

    def __enter__(self) -> "Site":
        self._process = subprocess.Popen(
            [self._program, "-e", str(self.folder / "error.log"), "-c", str(self.folder / "nginx.conf")])
        until(self._listens)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()  # its worker goes with it, which would outlive a kill
        self._process.wait(20)

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def connect(self) -> ssl.SSLSocket:
        """A connection for HTTP/1.1."""
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        return ssl.create_default_context(cafile=self.trust).wrap_socket(sock, server_hostname="localhost")

    def curl(self, path: str, body: Any = None, *more: str, key: str = "sk-ann") -> list[str]:
        """The command for a request over HTTP/2, which curl must speak; it shows nothing but the body."""
        sent = [] if body is None else ["-d", json.dumps(body)]
        return ["curl", "-sN", "--http2", "--max-time", "60", "--cacert", str(self.trust), "-H",
                f"Authorization: Bearer {key}", "-H", "anthropic-version: 2023-06-01", *sent, *more, self.url + path]

    def lines(self) -> list[str]:
        """Of its access log."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def errors(self) -> str:
        return (self.folder / "error.log").read_text()

    def _listens(self) -> bool:
        try:
            self.connect().close()
        except ConnectionRefusedError:
            assert self._process.poll() is None, self.errors()
            return False
        return True


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True
