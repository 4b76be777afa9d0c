"""`RoutedDispatch`: dispatch where a router child serves many models. Without the setting `router` none of it runs.

A router goes by the `model` in each request, so it is given the model's own name. And it hides how its own children
end: an answer that breaks off ends cleanly, with words of the router's behind it. Here it breaks off again.
"""

import http.client
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from blazar.engines.router import model_of
from blazar.errors import BlazarError, ChildFailed, ChildRefused, LoadFailed, RouterBusy
from blazar.proxy.child_errors import EXPLAINED
from blazar.proxy.dispatch import Dispatch, pass_on, read_refusal, told_error
from blazar.proxy.exchange import Exchange, Reply, Retryable, Sink, send_whole
from blazar.proxy.greens import sleep
from blazar.proxy.json import dumps
from blazar.proxy.json_scan import BodyReader
from blazar.proxy.receipts import headers_for
from blazar.proxy.wire.flow import ChildClosed
from blazar.proxy.wire.framing import LAST_CHUNK, chunk
from blazar.proxy.wire.head import Head
from blazar.proxy.wire.pool import Pool
from blazar.proxy.wire.relay import Call
from blazar.telemetry.metrics import Metrics
from blazar.transport import ROUTER, Endpoint, connection_to

PASSING: Final = re.compile(r"model '.*' not found|model name=\S+ is not (?:found|running)|model limit reached"
                     r"|proxy error: Could not establish connection")
"""What a router says of a model that is just going, or has just gone; nothing has reached an engine then."""
NOT_LOADED: Final = re.compile(r"failed to load$")
BROKEN: Final = b"proxy error: "
"""Begins what a router writes behind an answer that broke off."""
KEPT: Final = 256
"""Bytes of an answer's end that tell whether it is whole."""
PAUSE: Final = 0.3
"""Seconds; a router needs some tenths of one to see that a child of its own has ended."""
ANSWER_LIMIT: Final = 5.0
"""Seconds a router may take to say which models it has loaded."""


class RoutedDispatch(Dispatch):
    """As `Dispatch`, for whatever child an exchange goes to."""

    def __init__(self, pool: Pool, header_timeout: float | None, metrics: Metrics, reader: BodyReader) -> None:
        super().__init__(pool, header_timeout, metrics)
        self._reader = reader
        self.call = GuardedCall
        self.answer = answer_routed

    def send(self, exchange: Exchange) -> Reply:
        if is_routed(exchange) and exchange.asked != exchange.model:
            exchange.upstream_body = self._reader.with_value(exchange.upstream_body, "model", dumps(exchange.model))
        return super().send(exchange)

    def fetch(self, exchange: Exchange, path: str, value: dict[str, Any]) -> dict[str, Any]:
        if not is_routed(exchange):
            return super().fetch(exchange, path, value)
        try:
            return super().fetch(exchange, path, {**value, "model": exchange.model})
        except (ChildFailed, ChildRefused) as error:
            raise meant(exchange, error) from error


def is_routed(exchange: Exchange) -> bool:
    return exchange.endpoint is not None and exchange.endpoint.lane == ROUTER


def answer_routed(exchange: Exchange, call: Call) -> Reply:
    """Pass an answer on as `pass_on` does. Raises Retryable for a model that was not there at the moment."""
    if not is_routed(exchange) or call.head.status == 200:
        return pass_on(exchange, call)
    body = read_refusal(exchange, call)
    told = told_error(exchange, body, call.head.status)
    error = meant(exchange, told)
    explained = isinstance(told, EXPLAINED)
    if error is not told or explained or exchange.sink.early or not exchange.dialect.relays:
        raise error
    send_whole(exchange.sink, call.head.status, headers_for(exchange, call.head.status), body,
               call.head.fields.get("content-type", "application/json"))
    return Reply(call.head.status)


def meant(exchange: Exchange, told: BlazarError) -> Exception:
    """What a router's error means; `told` itself when it is the model's own. What will pass is given a moment to."""
    passing = PASSING.search(told.message)
    if passing is not None:
        sleep(PAUSE)
        return Retryable(RouterBusy(model=exchange.model, reason=f"it said `{passing[0]}`", retry_after=1.0))
    if NOT_LOADED.search(told.message):
        return LoadFailed(model=exchange.model, reason="its engine ended while it loaded",
                          output="; what it printed stands in run/router.log of the data dir")
    return told


class GuardedCall(Call):
    """An answer of a router ends early when the router's own child did."""

    def ask(self, exchange: Exchange) -> Head:
        self._guards = is_routed(exchange)
        self._end = b"\n\n"
        """The last bytes that were passed on."""
        return super().ask(exchange)

    @property
    def between_events(self) -> bool:
        return self._end.endswith(b"\n\n") if self._guards else super().between_events

    def relay(self, sink: Sink) -> None:
        """As `Call.relay`; the end is framed anew, once it is known to be one."""
        if not self._guards or self.head.status != 200:
            super().relay(sink)
            return
        for _, payload in self.pieces():
            sink.write(chunk(payload) if self.head.chunked else payload)
        if self.head.chunked:
            sink.write(LAST_CHUNK)

    def pieces(self) -> Iterator[tuple[bytes, bytes]]:
        """As `Call.pieces`. Raises ChildClosed where the answer broke off."""
        for wire, payload in super().pieces():
            passed = self._before_the_break(payload)
            if passed:
                self._end = (self._end + passed)[-KEPT:]
                yield wire, passed
            if len(passed) < len(payload):
                raise ChildClosed
        if self._guards and self.head.status == 200 and not self._is_whole():
            raise ChildClosed

    def _before_the_break(self, payload: bytes) -> bytes:
        """What of `payload` is the model's; in an event stream a line of the router's own is easily told."""
        if not self._guards or not self._streams() or BROKEN not in payload:
            return payload
        before = payload.rpartition(BROKEN)[0]
        return before if (self._end + before).endswith(b"\n\n") else payload

    def _is_whole(self) -> bool:
        if not self._streams():
            return self._end.rstrip().endswith(b"}")
        return b"[DONE]" in self._end or b'data: {"error"' in self._end

    def _streams(self) -> bool:
        return self.head.fields.get("content-type", "").startswith("text/event-stream")


def loaded_models(endpoint: Endpoint) -> set[str]:
    """The models that the router at `endpoint` has loaded; none when it does not say."""
    connection = connection_to(endpoint.address, ANSWER_LIMIT)
    try:
        connection.request("GET", "/models",
                           headers={"Authorization": f"Bearer {endpoint.secret}"} if endpoint.secret else {})
        models = json.loads(connection.getresponse().read())["data"]
        return {model_of(model["id"]) for model in models if model["status"]["value"] in ("loaded", "sleeping")}
    except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
        return set()
    finally:
        connection.close()
