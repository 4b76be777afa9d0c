"""The gunicorn worker: gevent's, with its own conversation with each client, and a stop that keeps streams and drops
idle connections.

Imported by gunicorn's master before anything is patched, so what it imports is gunicorn, gevent, the standard
library, and modules of ours for which the same holds.
"""

import _socket
import contextlib
import gc
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import gevent
from gevent.event import Event
from gunicorn.workers.ggevent import GeventWorker

from blazar.errors import TooManyConnections
from blazar.proxy.wire.client import Client
from blazar.proxy.wire.conversation import Conversation, Door
from blazar.proxy.wire.listening import Listening
from blazar.proxy.wire.turns import Turns

LINGER = 5.0
"""Seconds for which idle connections are kept once another worker has taken over: who asks again within them is
answered, and told that the connection ends."""
ERROR_TIME = 2.0
"""Seconds for the last errors to reach their clients once exchanges were ended."""
GLANCE = 0.05
"""Seconds between looks at whether the last connection has closed."""
YOUNG_OBJECTS = 10_000
"""New objects after which Python looks for cycles; a request leaves none behind, so there is little to find."""
SWEEP = 1.0
"""Seconds between looks at what waits for a client."""
REFUSERS = 64
"""Connections beyond the limit that can be refused at the same time."""


class GatewayWorker(GeventWorker):
    """`self.app` is the launcher of proxy/serve.py; its `gateway` is there once the WSGI application is loaded."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._clients: set[Client] = set()
        self._refused: set[Client] = set()
        """Those that came when there was no room."""
        self._turns: Turns
        self._servers: list[Listening] = []
        self._end_at: float | None = None
        self._relieved = False
        """Whether another worker takes the new connections."""
        self.parting = False
        """Whether a connection ends as soon as it is idle."""
        self._stopping: Event | None = None

    # -- its life ------------------------------------------------------------------------------------

    def run(self) -> None:
        gevent.config.track_greenlet_tree = False  # who has spawned whom is asked by nobody, and costs each connection
        self._stopping = Event()
        gateway = self.app.gateway
        gateway.supervisor.on_stopping = self._end_after
        gateway.supervisor.on_relieved = self._relieve
        self._turns = Turns(gevent.get_hub().loop)
        tls = gateway.tls()
        doors = [Door(self.cfg, listener, self._turns, tls) for listener in self.sockets]
        gateway.supervisor.on_certificate = partial(self._renew, doors)
        self._servers = [self._listen(listener, door) for listener, door in zip(self.sockets, doors, strict=True)]
        gc.collect()
        gc.freeze()  # what is here stays, and need not be looked at again
        gc.set_threshold(YOUNG_OBJECTS)
        sweeps = gevent.get_hub().loop.timer(SWEEP, repeat=SWEEP)
        sweeps.start(self._sweep)
        while self.alive:
            self.notify()
            self._stopping.wait(1.0)
        self._take_no_more()
        lingering = time.monotonic() + LINGER
        self._wait(lambda: lingering if self._relieved else 0.0)
        self.parting = True
        for client in self._clients:
            if not client.busy:
                client.shut(_socket.SHUT_RD)  # what has already come is still read
        self._drain(gateway)
        gateway.supervisor.part()

    def handle_exit(self, sig: int, frame: Any) -> None:
        super().handle_exit(sig, frame)
        if self._stopping is not None:
            self._stopping.set()

    def _end_after(self, grace: float) -> None:
        """The supervisor's word on how long streams may go on from now."""
        self._end_at, self._relieved = time.monotonic() + grace, False

    def _relieve(self, grace: float) -> None:
        """Its word that another worker has taken over; SIGTERM follows."""
        self._end_at, self._relieved = time.monotonic() + grace, True
        self._take_no_more()

    def _take_no_more(self) -> None:
        """No more connections; those that are open end with the answer to the next request."""
        self.app.gateway.draining = True
        self.app.gateway.background.wake()  # to leave batches to whoever takes over
        for server in self._servers:
            server.close()

    def _renew(self, doors: list[Door]) -> None:
        """Receive new connections with the certificate that the supervisor has told; the others keep theirs."""
        try:
            tls = self.app.gateway.tls()
        except Exception:
            self.log.exception("the new certificate cannot be used")
            return
        for door in doors:
            if door.tls is not None:
                door.tls = tls

    def _listen(self, listener: Any, door: Door) -> Listening:
        server = Listening(listener, partial(self._serve, door), self.worker_connections + REFUSERS)
        server.start()
        return server

    def _drain(self, gateway: Any) -> None:
        """Wait for connections to end; when the grace is over, end their exchanges with an error."""
        last = time.monotonic() + self.app.grace
        self._wait(lambda: last if self._end_at is None else self._end_at)
        gateway.end_exchanges()
        last_words = time.monotonic() + ERROR_TIME
        self._wait(lambda: last_words)
        for server in self._servers:
            server.stop(within=1.0)

    def _wait(self, until: Callable[[], float]) -> None:
        while self._clients and time.monotonic() < until():
            self.notify()
            gevent.sleep(GLANCE)

    # -- its connections -----------------------------------------------------------------------------

    def _serve(self, door: Door, sock: _socket.socket, address: Any) -> None:
        client = door.client(sock)
        is_full = len(self._clients) >= self.worker_connections
        crowd = self._refused if is_full else self._clients
        crowd.add(client)
        try:
            if is_full:
                self._refuse(door, client)
            else:
                Conversation(self, door, client, address).run()
        except OSError:
            pass  # the client left
        except Exception:
            self.log.exception("a connection failed")
        finally:
            crowd.discard(client)
            client.close()
            sock.close()

    def _refuse(self, door: Door, client: Client) -> None:
        """Tell it, in the words of what it asks, that there is no room; with TLS it is only closed: a handshake costs
        more than an answer."""
        if door.tls is None:
            began = b""
            with contextlib.suppress(TimeoutError):
                began = client.recv(within=0.0)  # the sweep is its end
            self.wsgi.refuse_head(client, began, TooManyConnections(limit=self.worker_connections))

    def _sweep(self) -> None:
        """From the loop: what waits for a client that takes too long is told so."""
        now = time.monotonic()
        for crowd in (self._clients, self._refused):
            for client in [client for client in crowd if client.deadline < now]:
                client.expire()
