"""What happens in the daemon, as a stream of events: those that are missed first, then each as it comes.

Who names the last event that was seen (`Last-Event-ID`, which browsers send by themselves, or `last_event_id` in the
query) gets all that have followed it; who names an age in seconds (`since`), those that are not older.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from blazar.proxy import greens
from blazar.proxy.dialects import queries
from blazar.proxy.exchange import ClientGone
from blazar.proxy.gateway import Gateway
from blazar.proxy.listeners import Listener, visible
from blazar.proxy.request import Request
from blazar.proxy.routes import Route
from blazar.telemetry.events import Event, gap, line, place

CONTENT_TYPE = "text/event-stream; charset=utf-8"
HEARTBEAT = 15.0
"""Seconds of silence after which a remark is sent: who listens sees that the connection lives, and so do proxies."""
BEGINNING = b"retry: 2000\n\n"
"""Milliseconds after which a browser comes back."""
LONGEST_AGE = 99999
"""Seconds of `since`, at most."""
LONGEST_ID = 100


def events(gateway: Gateway, request: Request, route: Route) -> None:
    query = queries.fields(request.query)
    last = request.headers.get("last-event-id") or query.get("last_event_id")
    age = queries.whole(query, "since", 0, LONGEST_AGE, least=0) if "since" in query else None
    follows = queries.switch(query, "follow", usual=True)
    key = request.api_key
    may_see = visible(lambda model: gateway.keys.allows(key, model), key.name if key is not None else None)
    headers = [*request.own_headers(), ("Content-Type", CONTENT_TYPE), ("Cache-Control", "no-store"),
               ("X-Accel-Buffering", "no")]
    if request.method == "HEAD":
        request.sink.start(200, headers)
        request.sink.finish()
        return
    with greens.interrupter(ClientGone) as interrupt, gateway.listeners.join(interrupt) as listener:
        request.sink.watch(interrupt)
        try:
            replayed, missed = _replay(gateway, last, age)
            request.sink.start(200, headers)
            request.sink.write(BEGINNING + b"".join(
                line(event) for event in ([gap()] if missed else []) + [one for one in replayed if may_see(one)]))
            if follows:
                _follow(request, listener, replayed[-1] if replayed else None, may_see,
                        lambda: gateway.keys.lets_in(key))
            request.sink.finish()
        finally:
            request.sink.unwatch()


def _replay(gateway: Gateway, last: str | None, age: int | None) -> tuple[list[Event], bool]:
    """The events that come first, and whether some before them are gone. Raises SupervisorGone."""
    if last is not None:
        told = gateway.supervisor.events(last=last[:LONGEST_ID])
    else:
        begin = datetime.now(UTC) - timedelta(seconds=-1 if age is None else age)
        told = gateway.supervisor.events(since=begin.isoformat(timespec="milliseconds").replace("+00:00", "Z"))
    return told["events"], told["missed"]


def _follow(request: Request, listener: Listener, last: Event | None, may_see: Callable[[Event], bool],
            let_in: Callable[[], bool]) -> None:
    """Send what comes, for as long as its API key is the same. What came while the beginning was asked for may stand
    there already."""
    seen = place(last) if last is not None else 0
    spoke = time.monotonic()
    while not listener.over:
        news = [event for event in listener.take(max(0.0, spoke + HEARTBEAT - time.monotonic())) if place(event) > seen]
        if not let_in():
            return
        told = b"".join(line(event) for event in news if may_see(event))
        if told or time.monotonic() - spoke >= HEARTBEAT:  # hidden events break no silence
            request.sink.write(told or b": nothing new\n\n")
            spoke = time.monotonic()
