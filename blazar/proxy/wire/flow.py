"""`Flow`: the body of a child's answer moved to its client in callbacks of the event loop, without a switch a piece.

The request's greenlet waits once, for the end. Back-pressure: while the client has not taken what was pushed, nothing
is read from the child. No exception leaves a callback: the first one ends the flow, and is raised where it was begun.
"""

from collections.abc import Callable

from gevent.hub import Waiter

from blazar.proxy.wire.client import Client
from blazar.proxy.wire.framing import Framing
from blazar.proxy.wire.pool import Connection


class ChildClosed(Exception):
    """The child closed in the middle of its answer."""


class Flow:
    """`take` follows the body, and gives what goes to the client of the bytes it is shown."""

    def __init__(self, connection: Connection, framing: Framing, take: Callable[[bytes], bytes],
                 client: Client) -> None:
        self._connection = connection
        self._framing = framing
        self._take = take
        self._client = client
        self._waiter = Waiter()

    def run(self) -> None:
        """Until the body has ended. Raises ChildClosed, BadFraming, and OSError when the client is gone."""
        self._client.on_room(self._resume)
        self._resume()
        try:
            failure = self._waiter.get()
        finally:
            self._connection.listen(None)
            self._client.on_room(None)
        if failure is not None:
            raise failure

    def _resume(self) -> None:
        self._connection.listen(self._on_bytes)

    def _on_bytes(self) -> None:
        """Move what has come. Here every piece of every stream passes."""
        try:
            data = self._connection.read()
        except BlockingIOError:
            return
        except OSError:
            data = b""
        try:
            if not data:
                self._end(None if self._framing.close() else ChildClosed())
                return
            if not self._client.push(self._take(data)):
                self._connection.listen(None)
            if self._framing.ended:
                self._end(None)
        except Exception as failure:
            self._end(failure)

    def _end(self, failure: Exception | None) -> None:
        self._connection.listen(None)
        self._waiter.switch(failure)
