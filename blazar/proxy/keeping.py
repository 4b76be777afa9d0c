"""`KeepingSink`: passes a relayed answer on as it is, and keeps what passed before the client has the end of it."""

from collections.abc import Callable
from typing import Final

from blazar.proxy.around import AroundSink
from blazar.proxy.exchange import Sink
from blazar.proxy.wire.framing import ChunkedFraming

DONE: Final = b"\ndata: [DONE]"
"""Where the last event of a stream begins; within JSON a line never ends, so no text of a model looks like it."""


class KeepingSink(AroundSink):
    """Around the sink of one answer. `keep` gets the whole body of a 200, if it is not over `most` bytes.

    A stream goes through at once, up to its last event; an answer that is not streamed is held until it is whole.
    """

    def __init__(self, sink: Sink, streams: bool, keep: Callable[[bytes], None], most: int) -> None:
        super().__init__(sink)
        self._keep = keep
        self._most = most
        self._holds = not streams
        self._framing: ChunkedFraming | None = None
        self._payload = bytearray()
        self._held: list[bytes] = []

    def start(self, status: int, headers: list[tuple[str, str]], *, raw_chunked: bool = False) -> None:
        self._framing = ChunkedFraming() if raw_chunked else None
        self._sink.start(status, headers, raw_chunked=raw_chunked)

    def write(self, data: bytes) -> None:
        self._take(self._framing.feed(data) if self._framing is not None else data)
        if self._holds:
            self._held.append(data)
        else:
            self._sink.write(data)

    def finish(self) -> None:
        if self._payload and self._sink.status == 200:
            self._keep(bytes(self._payload))
        self._release()
        self._sink.finish()

    def abort(self) -> None:
        self._held.clear()
        self._sink.abort()

    def _take(self, payload: bytes) -> None:
        if not self._most:
            return
        seen = max(0, len(self._payload) - len(DONE))
        self._payload += payload
        self._holds = self._holds or self._payload.find(DONE, seen) >= 0
        if len(self._payload) > self._most:
            self._most, self._holds = 0, False
            self._payload.clear()
            self._release()

    def _release(self) -> None:
        held, self._held = b"".join(self._held), []
        self._sink.write(held)
