"""A real engine that is slow: the embedded one, behind a proxy that waits before it hands on each token.

    python -P -m tests.support.slow_engine MILLISECONDS [llama-server's flags]
"""

import contextlib
import http.client
import os
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler

ENGINE = [sys.executable, "-P", "-m", "blazar.engines.embedded"]


def main() -> int:
    pause, flags = int(sys.argv[1]) / 1000, sys.argv[2:]
    if "--version" in flags or "--help" in flags:
        return subprocess.call([*ENGINE, *flags])
    with tempfile.TemporaryDirectory() as folder:
        inner = os.path.join(folder, "inner.sock")
        host, port = _take(flags, "--host"), _take(flags, "--port")
        engine = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *ENGINE, *flags, "--host", inner])
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        try:
            with _server(host, int(port or 8080), _handler(inner, pause)) as server:
                threading.Thread(target=server.serve_forever, daemon=True).start()
                return engine.wait()
        finally:
            engine.kill()
            engine.wait()


def _take(flags: list[str], name: str) -> str:
    place = flags.index(name)
    value = flags[place + 1]
    del flags[place:place + 2]
    return value


def _server(host: str, port: int, handler: type) -> socketserver.BaseServer:
    if host.endswith(".sock"):
        return type("Unix", (socketserver.ThreadingMixIn, socketserver.UnixStreamServer), {"daemon_threads": True})(
            host, handler)
    return type("Tcp", (socketserver.ThreadingMixIn, socketserver.TCPServer),
                {"daemon_threads": True, "allow_reuse_address": True})((host, port), handler)


def _handler(inner: str, pause: float) -> type:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = http.client.HTTPConnection("inner", timeout=60)
            connection.sock = socket.socket(socket.AF_UNIX)
            try:
                connection.sock.connect(inner)
            except OSError:
                self.send_error(503)
                return
            with contextlib.closing(connection), contextlib.suppress(OSError):
                connection.request(self.command, self.path, body, {
                    name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")})
                answer = connection.getresponse()
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers.get("Content-Type", "text/plain"))
                self.send_header("Connection", "close")
                self.end_headers()
                for line in answer:
                    if line.startswith(b"data: {"):
                        time.sleep(pause)
                    self.wfile.write(line)

        do_POST = do_GET

        def address_string(self) -> str:
            return "local"

        def log_message(self, *_: object) -> None:
            pass

    return Handler


if __name__ == "__main__":
    raise SystemExit(main())
