"""`AroundSink`: stands between an answer and its client's sink; what it does to the answer, a subclass says."""

from collections.abc import Callable
from typing import Any

from blazar.proxy.exchange import ClientGone, Sink


class AroundSink(Sink):
    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    @property
    def started(self) -> bool:
        return self._sink.started

    @property
    def status(self) -> int:
        return self._sink.status

    @property
    def gone(self) -> bool:
        return self._sink.gone

    @property
    def early(self) -> bool:
        return self._sink.early

    @property
    def closing(self) -> bool:
        return self._sink.closing

    @closing.setter
    def closing(self, closing: bool) -> None:
        self._sink.closing = closing

    def start(self, status: int, headers: list[tuple[str, str]], *, raw_chunked: bool = False) -> None:
        self._sink.start(status, headers, raw_chunked=raw_chunked)

    def write(self, data: bytes) -> None:
        self._sink.write(data)

    def finish(self) -> None:
        self._sink.finish()

    def beat(self, headers: list[tuple[str, str]], data: bytes) -> None:
        self._sink.beat(headers, data)

    def flush(self) -> None:
        self._sink.flush()

    def direct(self) -> Any:
        """Nobody but this may write to the client."""
        return None

    def departed(self) -> ClientGone:
        return self._sink.departed()

    def watch(self, on_gone: Callable[[], None]) -> None:
        self._sink.watch(on_gone)

    def unwatch(self) -> None:
        self._sink.unwatch()
