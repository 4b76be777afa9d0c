"""The last step of an attempt: send the exchange to its endpoint and push the answer into its sink.

Two ways out. A dialect that relays gets the child's own bytes, unparsed, chunk framing included. A dialect that
translates asks the child for a stream, always, and turns its events into its own stream or into one whole answer.
Once the head is out, whatever goes wrong is told inside the stream, or by ending the connection early.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from blazar.errors import BlazarError, ChildFailed
from blazar.proxy.assemble import Assembler
from blazar.proxy.child_errors import EXPLAINED, cause_of, child_error, told_of
from blazar.proxy.dialects.openai_whole import Whole
from blazar.proxy.exchange import ClientGone, Exchange, Reply, Retryable, Usage, send_whole
from blazar.proxy.json import BadJson, dumps, loads
from blazar.proxy.meter import Meter, estimated
from blazar.proxy.receipts import headers_for, overhead
from blazar.proxy.rows import take_rows
from blazar.proxy.sse import SseReader
from blazar.proxy.wire.flow import ChildClosed
from blazar.proxy.wire.framing import LAST_CHUNK, BadFraming, chunk
from blazar.proxy.wire.pool import Pool
from blazar.proxy.wire.relay import Call
from blazar.telemetry.metrics import Metrics

MAX_CHILD_ERROR: Final = 65536
"""Bytes of a child's error answer that are read for its message."""
DONE: Final = "[DONE]"
MAX_OBJECT: Final = 64 << 20
"""Bytes of the longest JSON answer that is read whole."""

Result = TypeVar("Result")


class Dispatch:
    """Sends exchanges to children. However that ends, `exchange.usage` says afterwards what the attempt used."""

    def __init__(self, pool: Pool, header_timeout: float | None, metrics: Metrics) -> None:
        self._pool = pool
        self._header_timeout = header_timeout
        self._metrics = metrics
        self.call: type[Call] = Call
        """What carries one attempt."""
        self.answer = pass_on
        """How an answer is passed on, once its head is there."""

    def send(self, exchange: Exchange) -> Reply:
        """The last step of the pipeline."""
        assert exchange.endpoint is not None, "stage admission has run"
        streams = exchange.stream or exchange.gathers or not exchange.dialect.relays
        meter = Meter(self._metrics.inter_token.series(exchange.model) if streams else None)
        with self.call(self._pool, exchange.endpoint, self._header_timeout, meter) as call:
            try:
                reply = _watched(exchange, call, self.answer)
            finally:
                exchange.usage = exchange.usage or _used(exchange, call)
            reply.usage = exchange.usage
            if reply.complete:
                call.settle()  # the client has its answer: that it leaves now is no reason to close
            return reply

    def fetch(self, exchange: Exchange, path: str, value: dict[str, Any]) -> dict[str, Any]:
        """The JSON object with which the exchange's child answers `value` at `path`; the client gets nothing yet."""
        assert exchange.endpoint is not None, "stage admission has run"
        exchange.upstream_path, exchange.upstream_body = path, dumps(value)
        with self.call(self._pool, exchange.endpoint, self._header_timeout, Meter()) as call:
            return _watched(exchange, call, _read_object)

    def fetch_rows(self, exchange: Exchange, path: str, value: dict[str, Any],
                   take: Callable[[list[float]], None]) -> None:
        """As `fetch`, for an answer whose innermost lists are all of numbers: `take` gets each as it comes, so that
        the whole, which may be a hundred MiB, is never held."""
        assert exchange.endpoint is not None, "stage admission has run"
        exchange.upstream_path, exchange.upstream_body = path, dumps(value)
        with self.call(self._pool, exchange.endpoint, self._header_timeout, Meter()) as call:
            _watched(exchange, call, lambda exchange, call: _read_rows(exchange, call, take))

    def look(self, exchange: Exchange, path: str) -> Any:
        """The JSON with which the exchange's child answers a GET of `path`."""
        assert exchange.endpoint is not None, "somebody has found it"
        exchange.method, exchange.upstream_path = "GET", path
        with self.call(self._pool, exchange.endpoint, self._header_timeout, Meter()) as call:
            return _watched(exchange, call, _read_json)


def _watched(exchange: Exchange, call: Call, read: Callable[[Exchange, Call], Result]) -> Result:
    """Ask the child and `read` its answer, for as long as the client is there."""
    interrupt = call.interrupt
    exchange.call, exchange.interrupt = call, interrupt
    exchange.sink.watch(interrupt)
    try:
        if exchange.ended_by is not None:
            raise exchange.ended_by
        if call.ask(exchange).status == 401:
            raise ChildFailed(model=exchange.model, reason="it does not accept our secret")
        return read(exchange, call)
    except (ChildFailed, BadFraming) as error:
        _say_why(exchange, error)
        raise
    finally:
        exchange.sink.unwatch()
        exchange.call = exchange.interrupt = None


def pass_on(exchange: Exchange, call: Call) -> Reply:
    """Pass the child's answer on in the exchange's dialect."""
    if exchange.gathers and call.head.streams:
        return _gather(exchange, call)
    relays = exchange.dialect.relays and (exchange.reshaping is None or call.head.status != 200)
    if relays and not (exchange.sink.early and not call.head.streams):
        return _relay(exchange, call)
    if call.head.status != 200 or relays:
        raise _answered_error(exchange, call)
    if exchange.dialect.relays and not exchange.stream:
        return _reshape(exchange, call)
    return _translate(exchange, call) if exchange.stream else _assemble(exchange, call)


def _say_why(exchange: Exchange, error: Exception) -> None:
    """Raise the true cause when it was we who closed the child's connection."""
    if exchange.sink.gone:
        raise exchange.sink.departed() from error
    if exchange.ended_by is not None:
        raise exchange.ended_by from error


@contextlib.contextmanager
def _told_why(exchange: Exchange) -> Iterator[None]:
    """Around what reads an answer that may break off: raises what is told of it then."""
    try:
        yield
    except (ChildClosed, BadFraming) as error:
        _say_why(exchange, error)
        raise cause_of(exchange, error) from error


def _used(exchange: Exchange, call: Call) -> Usage | None:
    """What a child told of its answer, else an estimate; None when it did nothing for this attempt."""
    if not call.answered:
        left = exchange.sink.gone or not isinstance(exchange.ended_by, Retryable | None)
        return estimated(exchange, 0) if exchange.sent and left else None  # it was reading the prompt
    if call.head.status != 200:
        return None
    return call.meter.counts() or estimated(exchange, call.meter.events)


# -- relayed answers -------------------------------------------------------------------------------------


def _relay(exchange: Exchange, call: Call) -> Reply:
    head, sink = call.head, exchange.sink
    if head.status in (400, 500, 501):
        return _refused(exchange, call)
    if head.status == 200 and not head.answers:
        raise ChildFailed(model=exchange.model,
                          reason=f"its answer is {head.kind[:60]!r}, neither JSON nor a stream of events")
    headers = [*headers_for(exchange, head.status), overhead(exchange), ("Content-Type", head.kind)]
    if head.ends_by_closing and head.status == 200 and not head.streams:
        return _believed(exchange, call, headers)
    if head.length is not None:
        headers.append(("Content-Length", str(head.length)))
        body = call.whole()
        if body is not None:
            sink.give(head.status, headers, body)
            return Reply(head.status)
    sink.start(head.status, headers, raw_chunked=head.chunked)
    try:
        call.relay(sink)
        if head.ends_by_closing and (exchange.ended_by is not None or not call.meter.finished):
            raise ChildClosed  # we closed it, or it broke off: all that ends such a body is that the connection does
    except (ChildClosed, BadFraming) as error:
        return Reply(head.status, complete=False, error=_end_relayed(exchange, call, error))
    sink.finish()
    return Reply(head.status)


def _believed(exchange: Exchange, call: Call, headers: list[tuple[str, str]]) -> Reply:
    """An answer that ends with its connection, as that of a child does which dies: it is whole when it is JSON."""
    with _told_why(exchange):
        body = read_body(call, MAX_OBJECT)
        try:
            loads(body)
        except BadJson as error:
            raise ChildClosed from error
    exchange.sink.start(200, [*headers, ("Content-Length", str(len(body)))])
    exchange.sink.write(body)
    exchange.sink.finish()
    return Reply(200)


def _gather(exchange: Exchange, call: Call) -> Reply:
    """One answer out of the child's stream, for a client that wanted no stream."""
    whole = Whole()
    for event in _events(exchange, call):
        whole.feed(event)
    return _whole(exchange, call, whole.value())


def _refused(exchange: Exchange, call: Call) -> Reply:
    """The child's refusal as it is, unless we can say better what is wrong with the request."""
    body, value = read_refusal(exchange, call), None
    with contextlib.suppress(BadJson):
        value = loads(body)
    if not isinstance(value, dict):
        raise told_error(exchange, body, call.head.status)
    told = value.get("error")
    error = child_error(exchange, told, call.head.status)
    if error.status < 500 <= call.head.status or isinstance(error, EXPLAINED):
        raise error
    send_whole(exchange.sink, call.head.status, [*headers_for(exchange, call.head.status), overhead(exchange)], body,
               call.head.fields.get("content-type", "application/json"))
    return Reply(call.head.status)


def _end_relayed(exchange: Exchange, call: Call, error: Exception) -> Exception:
    """The child's stream broke off: say so where a new event may begin, else end the connection early.

    The result is the cause.
    """
    if exchange.sink.gone:
        raise exchange.sink.departed()
    cause = cause_of(exchange, error)
    if exchange.stream and call.between_events and call.head.status == 200:
        exchange.sink.closing = True
        told = exchange.dialect.stream_error(cause)
        exchange.sink.write(chunk(told) + LAST_CHUNK if call.head.chunked else told)
        exchange.sink.finish()
    else:
        exchange.sink.abort()
    return cause


# -- translated answers ----------------------------------------------------------------------------------


def _translate(exchange: Exchange, call: Call) -> Reply:
    sink, translator = exchange.sink, exchange.dialect.translator(exchange)

    def push(data: bytes) -> None:
        if data:
            start()
            sink.write(data)

    def start() -> None:
        if sink.early or not sink.started:
            sink.start(200, [*exchange.headers, overhead(exchange, call.meter.heard),
                             ("Content-Type", exchange.dialect.stream_type), ("Cache-Control", "no-cache")])

    try:
        for event in _shaped(exchange, call):
            push(translator.feed(event))
            if translator.stopped:
                call.interrupt()
                break
        push(translator.finish())
    except ClientGone:
        raise
    except Exception as error:
        if sink.gone or not sink.started or (sink.early and isinstance(error, Retryable)):
            raise
        told = told_of(error)
        sink.closing = True
        push(translator.fail(told))
        sink.finish()
        if not isinstance(told, BlazarError):
            raise
        return Reply(200, complete=False, error=told)
    start()
    sink.finish()
    return Reply(200)


def _assemble(exchange: Exchange, call: Call) -> Reply:
    assembler = Assembler(exchange.stops)
    for event in _shaped(exchange, call):
        assembler.feed(event)
        if assembler.stopped:
            call.interrupt()
            break
    answer = assembler.finish()
    body = exchange.dialect.render(exchange, answer)
    exchange.headers.append(overhead(exchange, call.meter.heard))
    return exchange.answer(body)


def _reshape(exchange: Exchange, call: Call) -> Reply:
    """A whole answer that would pass as it is, if its form were not looked after."""
    return _whole(exchange, call, _read_object(exchange, call))


def _whole(exchange: Exchange, call: Call, value: dict[str, Any]) -> Reply:
    body = dumps(value if exchange.reshaping is None else exchange.reshaping.whole(value))
    exchange.headers.append(overhead(exchange, call.meter.heard))
    return exchange.answer(body)


def _shaped(exchange: Exchange, call: Call) -> Iterator[dict[str, Any]]:
    events = _events(exchange, call)
    if exchange.listener is not None:
        events = exchange.listener.events(events)
    return events if exchange.reshaping is None else exchange.reshaping.events(events)


def _events(exchange: Exchange, call: Call) -> Iterator[dict[str, Any]]:
    """The child's events. Raises ChildFailed for an error among them, and when the stream breaks off."""
    reader, is_empty = SseReader(), True
    if not call.head.streams:
        raise ChildFailed(model=exchange.model, reason="its answer is no stream of events")
    with _told_why(exchange):
        for _, payload in call.pieces():
            for data in reader.feed(payload):
                if data.strip() == DONE:
                    return
                is_empty = False
                yield _event(exchange, data)
        for data in reader.finish():
            if data.strip() == DONE:
                return
            is_empty = False
            yield _event(exchange, data)
        if is_empty:
            raise ChildFailed(model=exchange.model, reason="its answer is empty")
        if not call.meter.finished:
            raise ChildClosed  # what ends with its connection, or has lost its end elsewhere, seems whole to HTTP


# -- fetched answers, and errors -------------------------------------------------------------------------


def _read_object(exchange: Exchange, call: Call) -> dict[str, Any]:
    value = _read_json(exchange, call)
    if not isinstance(value, dict):
        raise ChildFailed(model=exchange.model, reason="its answer is not a JSON object")
    return value


def _read_json(exchange: Exchange, call: Call) -> Any:
    if call.head.status != 200:
        raise _answered_error(exchange, call)
    try:
        with _told_why(exchange):
            return loads(read_body(call, MAX_OBJECT))
    except BadJson as error:
        raise ChildFailed(model=exchange.model, reason=f"its answer is not usable JSON: {error}") from error


def _read_rows(exchange: Exchange, call: Call, take: Callable[[list[float]], None]) -> None:
    if call.head.status != 200:
        raise _answered_error(exchange, call)
    with _told_why(exchange):
        take_rows((payload for _, payload in call.pieces()), exchange.model, take)


def read_body(call: Call, limit: int) -> bytes:
    """The body of the child's answer; of one beyond `limit` bytes only the beginning."""
    body = bytearray()
    for _, payload in call.pieces():
        body += payload
        if len(body) > limit:
            break
    return bytes(body)


def read_refusal(exchange: Exchange, call: Call) -> bytes:
    """The body of the child's error answer; empty when it broke off, as its status says enough, unless that is because
    the exchange was ended or its client has left: raises what is told then."""
    try:
        return read_body(call, MAX_CHILD_ERROR)
    except (ChildClosed, BadFraming) as error:
        _say_why(exchange, error)
        return b""


def _event(exchange: Exchange, data: str) -> dict[str, Any]:
    try:
        event = loads(data.encode())
    except BadJson as error:
        raise ChildFailed(model=exchange.model, reason=f"it sent an event that is not JSON: {error}") from error
    if not isinstance(event, dict):
        raise ChildFailed(model=exchange.model, reason="it sent an event that is not a JSON object")
    if event.get("error"):
        raise child_error(exchange, event["error"], 500)
    return event


def _answered_error(exchange: Exchange, call: Call) -> BlazarError:
    """The child's error answer as an error of ours."""
    return told_error(exchange, read_refusal(exchange, call), call.head.status)


def told_error(exchange: Exchange, body: bytes, status: int) -> BlazarError:
    """The error of an answer with that status, whose body has been read; a 4xx keeps its status."""
    value = None
    with contextlib.suppress(BadJson):
        value = loads(body)
    told = value.get("error", value) if isinstance(value, dict) else body[:500].decode(errors="replace")
    return child_error(exchange, told, status)
