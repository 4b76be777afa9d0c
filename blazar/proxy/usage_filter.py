"""`UsageFilter`: an OpenAI stream whose child was asked for its counts by us, not by the client, who does not see them.

An event goes through as soon as it is whole; the one that has counts and no choices is left out.
"""

from typing import Final

from blazar.proxy.around import AroundSink
from blazar.proxy.exchange import Exchange, Sink
from blazar.proxy.json import BadJson, loads
from blazar.proxy.json_scan import BodyReader
from blazar.proxy.wire.framing import ChunkedFraming

LONGEST: Final = 1 << 20
"""Bytes of an event that are held; a longer one has more to say than counts, and goes through as it comes."""


class UsageFilter(AroundSink):
    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._framing: ChunkedFraming | None = None
        self._rest = b""

    def start(self, status: int, headers: list[tuple[str, str]], *, raw_chunked: bool = False) -> None:
        self._framing = ChunkedFraming() if raw_chunked else None
        is_stream = any(value.startswith("text/event-stream") for _, value in headers)
        kept = [(name, value) for name, value in headers if not is_stream or name != "Content-Length"]
        self._sink.start(status, kept)

    def write(self, data: bytes) -> None:
        *events, self._rest = _split(self._rest + (self._framing.feed(data) if self._framing is not None else data))
        if len(self._rest) > LONGEST:
            events, self._rest = [*events, self._rest], b""
        shown = b"".join(event for event in events if not _only_counts(event))
        if shown:
            self._sink.write(shown)

    def finish(self) -> None:
        if self._rest:
            self._sink.write(self._rest)
        self._sink.finish()

    def abort(self) -> None:
        self._sink.abort()


def ask_for_counts(exchange: Exchange, reader: BodyReader) -> None:
    """Have the child asked for them and the client not told, unless it asks for them itself."""
    body = exchange.upstream_body
    if b'"stream_options"' in body:
        options = reader.whole(body).get("stream_options")
        if isinstance(options, dict) and options.get("include_usage"):
            return
    # What a reader finds last counts.
    exchange.upstream_body = body.rstrip().removesuffix(b"}") + b',"stream_options":{"include_usage":true}}'
    exchange.sink = UsageFilter(exchange.sink)


def _split(data: bytes) -> list[bytes]:
    """The whole events, each with its empty line, and what follows them."""
    end = b"\r\n\r\n" if b"\r\n\r\n" in data else b"\n\n"
    *events, rest = data.split(end)
    return [*(event + end for event in events), rest]


def _only_counts(event: bytes) -> bool:
    if b'"usage"' not in event:
        return False
    try:
        value = loads(event.partition(b":")[2].strip())
    except BadJson:
        return False
    return isinstance(value, dict) and value.get("choices") == [] and bool(value.get("usage"))
