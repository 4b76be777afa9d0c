"""The gunicorn worker: gevent's, with its own conversation with each client, and a stop that keeps streams and drops
idle connections.

Imported by gunicorn's master before anything is patched, so what it imports is gunicorn, gevent, the standard
library, and modules of ours for which the same holds.
"""

import _socket
import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gevent
from gevent.event import Event
from gevent.pool import Pool
from gevent.server import StreamServer
from gunicorn.http import wsgi
from gunicorn.util import close
from gunicorn.workers.ggevent import GeventWorker

from blazar.proxy.request import REQUEST
from blazar.proxy.wire.intake import ClientParser, Unreadable

ERROR_TIME = 2.0
"""Seconds for the last errors to reach their clients once exchanges were ended."""
GLANCE = 0.05
"""Seconds between looks at whether the last connection has closed."""
REFUSERS = 64
"""Connections beyond the limit that can be refused at the same time."""
BUSY = (b'HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 82\r\n'
        b'Retry-After: 1\r\nConnection: close\r\n\r\n'
        b'{"error":{"message":"too many open connections","type":"server_error","code":503}}')


class GatewayWorker(GeventWorker):
    """`self.app` is the launcher of proxy/serve.py; its `gateway` is there once the WSGI application is loaded."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._open = 0
        self._idle: set[Any] = set()
        """Client sockets on which no request is being answered."""
        self._end_at: float | None = None
        self._stopping: Event | None = None

    # -- its life ------------------------------------------------------------------------------------

    def run(self) -> None:
        self._stopping = Event()
        gateway = self.app.gateway
        gateway.supervisor.on_stopping = self._end_after
        servers = [self._listen(listener) for listener in self.sockets]
        while self.alive:
            self.notify()
            self._stopping.wait(1.0)
        gateway.draining = True
        for server in servers:
            server.close()
        for client in self._idle:
            _read_no_more(client)
        self._drain(servers, gateway)
        gateway.supervisor.tick()  # the last counts

    def handle_exit(self, sig: int, frame: Any) -> None:
        super().handle_exit(sig, frame)
        if self._stopping is not None:
            self._stopping.set()

    def _end_after(self, grace: float) -> None:
        """The supervisor's word on how long streams may go on from now."""
        self._end_at = time.monotonic() + grace

    def _listen(self, listener: Any) -> StreamServer:
        listener.setblocking(1)
        pool = Pool(self.worker_connections + REFUSERS)
        server = StreamServer(listener, handle=partial(self.handle, listener), spawn=pool)
        server.start()
        return server

    def _drain(self, servers: list[StreamServer], gateway: Any) -> None:
        """Wait for connections to end; when the grace is over, end their exchanges with an error."""
        last = time.monotonic() + self.app.grace
        self._wait(lambda: last if self._end_at is None else self._end_at)
        gateway.end_exchanges()
        last_words = time.monotonic() + ERROR_TIME
        self._wait(lambda: last_words)
        for server in servers:
            server.stop(timeout=1)

    def _wait(self, until: Callable[[], float]) -> None:
        while self._open and time.monotonic() < until():
            self.notify()
            gevent.sleep(GLANCE)

    # -- its connections -----------------------------------------------------------------------------

    def handle(self, listener: Any, client: Any, addr: Any) -> None:
        if self._open >= self.worker_connections:
            with contextlib.suppress(OSError):
                client.sendall(BUSY)
            client.close()
            return
        self._open += 1
        self._idle.add(client)
        try:
            self._converse(listener.getsockname(), client, addr)
        except OSError:
            pass  # the client left
        except Exception:
            self.log.exception("a connection failed")
        finally:
            self._idle.discard(client)
            self._open -= 1
            close(client)

    def _converse(self, listener_name: Any, client: Any, addr: Any) -> None:
        """Answer the requests of one connection until one of both sides ends it."""
        client.setblocking(1)
        parser = ClientParser(self.cfg, client, addr)
        another = True
        while another:
            request = None
            try:
                with gevent.Timeout(self.cfg.keepalive, False):
                    request = next(parser, None)
            except Unreadable as unreadable:
                self.wsgi.refuse_head(client, unreadable.began, unreadable.error)
            another = request is not None and self._answer(listener_name, request, client, addr)
            self.app.gateway.pace()  # a client whose next request is there already must not have us to itself

    def _answer(self, listener_name: Any, request: Any, client: Any, addr: Any) -> bool:
        """Have the application answer; whether another request may follow."""
        self._idle.discard(client)
        try:
            response, environ = wsgi.create(request, client, addr, listener_name, self.cfg)
            self.wsgi(environ, response.start_response)
            sink = environ[REQUEST].sink
            return sink.started and not sink.closing
        finally:
            self._idle.add(client)
            if not self.alive:
                _read_no_more(client)


def _read_no_more(client: Any) -> None:
    """Let the reader of an idle connection see its end; what has already come is still read."""
    # The bare socket type: gevent's shutdown would fail the reader with EBADF instead.
    bare = _socket.socket(fileno=client.fileno())
    with contextlib.suppress(OSError):
        bare.shutdown(_socket.SHUT_RD)
    bare.detach()
