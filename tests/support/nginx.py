"""A real nginx in front of something, with connections to it kept alive."""

import os
import socket
import subprocess
from pathlib import Path

from tests.support.needs import need
from tests.support.waiting import until

CONFIG = """\
daemon off;
master_process off;
{user}
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
  log_format forwarded '$upstream_addr $upstream_status $request';
  access_log {folder}/access.log forwarded;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  client_header_timeout 1s;
  client_body_timeout 1s;
  upstream behind {{ server 127.0.0.1:{behind}; keepalive 1; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://behind;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_request_buffering off;
      proxy_buffering off;
    }}
  }}
}}
"""


class Nginx:
    """`with Nginx(folder, port_behind) as nginx:`. A test that needs one is left out where there is none."""

    def __init__(self, folder: Path, behind: int) -> None:
        program = need("nginx")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self._log = folder / "access.log"
        config = folder / "nginx.conf"
        config.write_text(CONFIG.format(folder=folder, behind=behind, port=self.port,
                                        user="user root;" if os.geteuid() == 0 else ""))
        self._process = subprocess.Popen([program, "-e", str(folder / "error.log"), "-c", str(config)])

    def __enter__(self) -> "Nginx":
        until(self._listens)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=1.5)

    def forwarded(self) -> list[str]:
        """The requests that it has passed on, as it read them; each is noted once it has ended."""
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return [line for line in lines if not line.startswith("- ")]

    def _listens(self) -> bool:
        try:
            self.connect().close()
        except ConnectionRefusedError:
            return False
        return True
