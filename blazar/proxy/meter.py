"""What an answer cost: `Meter` follows a child's answer as it passes, without reading it.

Engines tell the count at the end, so the last bytes are kept and looked at once: OpenAI's `usage`, or llama.cpp's
`timings`, which come unasked. Where neither is found, or the answer did not reach its end, the count is estimated from
the bytes of the request and the events that passed.
"""

import re
from typing import Any, Final

from blazar.proxy.exchange import Exchange, Usage
from blazar.proxy.json import BadJson, loads
from blazar.telemetry.metrics import MANY, Series

ZERO: Final = 48
NINE: Final = 57
COMMA: Final = 44
BRACE: Final = 125
MISSING: Final = -1
ODD: Final = -2
DIGITS: Final = 15
"""Of the longest number that is read without JSON."""
KEPT: Final = 4096
"""Bytes at the end of an answer in which its counts are looked for."""
PIECES: Final = 16
"""Pieces, each no longer than that, that wait to be joined to them."""
EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n")
MOST: Final = (1 << 63) - 1
"""The largest count that is told: clients read 64-bit integers."""
BYTES_A_TOKEN: Final = 4
"""Of a request's body, for an estimate."""
LIMITS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")
"""Names under which a request limits its answer."""
COUNTED: Final = frozenset({"count_tokens", "input_tokens"})
"""Operations that have no answer, and whose prompt nobody reads."""
UNLIMITED_COMPLETION: Final = 256
"""Tokens reserved for an answer to which the request sets no limit."""

# In a JSON string the quotes of these keys would be escaped, so what a model writes is never taken for them.
_NUMBER: Final = (int, float)  # a tuple: `int | float` would be built anew at each call
_FINISHED: Final = re.compile(rb'(?:^|[\r\n])data:\s*(?:\[DONE\]|\{"error")|"finish_reason"\s*:\s*"|"stop"\s*:\s*true')
_FLAT: Final = re.compile(rb"\s*:\s*(\{[^{}]*\})")
_NESTED: Final = re.compile(rb"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})")
USAGE: Final = b'"usage":{'
TIMINGS: Final = b'"timings":{'
_COUNTS: Final = (("usage", b'"usage"'), ("timings", b'"timings"'))


class Meter:
    """One attempt's answer. `gaps` takes the time between the pieces of a stream."""

    heard = 0.0
    """When the last piece came."""
    _series: Series | None = None
    _gaps: list[float] | None = None
    """Its fresh values."""
    _kept = b""
    """The end of what was looked at."""
    _events = 0
    """In all of that."""

    def __init__(self, gaps: Series | None = None) -> None:
        self._pieces: list[bytes] = []
        """What came after it."""
        if gaps is not None:
            self._series, self._gaps = gaps, gaps.fresh

    def add(self, payload: bytes, now: float) -> None:
        if self._gaps is not None and self.heard:
            self._gaps.append(now - self.heard)
        self.heard = now
        pieces = self._pieces
        pieces.append(payload)
        if len(pieces) >= PIECES or len(payload) > KEPT:
            self._end()

    def _end(self) -> bytes:
        """The end of what has passed."""
        pieces = self._pieces
        if pieces:
            fresh = b"".join(pieces)
            pieces.clear()
            self._kept = (self._kept + fresh if len(fresh) < KEPT else fresh)[-KEPT:]
            if self._series is not None:
                self._events += fresh.count(b"\n\n") or fresh.count(b"\r\n\r\n")
                if len(self._series.fresh) >= MANY:
                    self._series.settle()
        return self._kept

    @property
    def events(self) -> int:
        """Events of a stream that have passed."""
        self._end()
        return self._events

    @property
    def between_events(self) -> bool:
        """Nothing has passed, or the last event of a stream is whole."""
        end = self._end()
        return not end or end.endswith(EVENT_ENDS)

    @property
    def finished(self) -> bool:
        """A stream has said that it is over: with a last event, a reason why it ends, or an error."""
        return _FINISHED.search(self._end()) is not None

    def counts(self) -> Usage | None:
        """What the child says of its answer, but for the times; None when it says nothing."""
        end = self._end()
        usage, place = None, end.rfind(USAGE)
        if place >= 0:
            usage = _counts_at(end, place + len(USAGE) - 1, "usage")
        elif end.find(b'"usage"') < 0:
            place = end.rfind(TIMINGS)
            if place >= 0:
                usage = _counts_at(end, place + len(TIMINGS) - 1, "timings")
        return usage if usage is not None else _read_counts(end)


def _counts_at(end: bytes, start: int, name: str) -> Usage | None:
    """The counts of the object of this name at `start`, where it is as engines write it nearly always; None where its
    numbers are not so plain that they can be read without JSON."""
    stop = end.find(b"}", start)
    if stop >= 0 and end.find(b"{", start + 1, stop) >= 0:  # with details, which are told as an object of their own
        inner, stop = stop, end.find(b"}", stop + 1)
        if end.find(b"{", inner, stop) >= 0:  # with more of them
            return None
    if stop < 0:
        return None
    timed = name == "timings"
    if timed:
        prompt, completion = _plain(end, b'"prompt_n":', start, stop), _plain(end, b'"predicted_n":', start, stop)
        cached = _plain(end, b'"cache_n":', start, stop)
    else:
        prompt = _plain(end, b'"prompt_tokens":', start, stop)
        completion = _plain(end, b'"completion_tokens":', start, stop)
        cached = _plain(end, b'"cached_tokens":', start, stop)
    if prompt < 0 or completion < 0 or cached == ODD:
        return None
    if cached == MISSING:
        cached = 0
    if timed:
        return Usage(prompt + cached, completion, cached, timed=True)
    return Usage(prompt, completion, cached, timed=end.find(b'"timings"', stop) >= 0)  # where llama.cpp puts them


def _plain(end: bytes, key: bytes, start: int, stop: int) -> int:
    """The whole number behind the last such key before the brace at `stop`; MISSING without one, ODD for anything
    else."""
    place = end.rfind(key, start, stop)
    if place < 0:
        return MISSING
    first = at = place + len(key)
    number = 0
    while ZERO <= end[at] <= NINE:
        number = 10 * number + end[at] - ZERO
        at += 1
    plain = (0 < at - first <= DIGITS and (end[at] == COMMA or end[at] == BRACE)
             and (end[first] != ZERO or at == first + 1))
    return number if plain else ODD


def _read_counts(end: bytes) -> Usage | None:
    """The counts in any other form."""
    for name, key in _COUNTS:
        place = end.rfind(key)
        if place < 0:
            continue
        found = _FLAT.match(end, place + len(key)) or _NESTED.match(end, place + len(key))
        if found is not None:
            try:
                told = loads(found[1])
            except BadJson:
                continue
            counts = Usage()
            take_counts(counts, {name: told})
            return Usage(counts.prompt_tokens, counts.completion_tokens, counts.cached_tokens,
                         timed=name == "timings" or b'"timings"' in end)
    return None


def estimated(exchange: Exchange, completion_tokens: int) -> Usage:
    """The usage of an attempt whose child did not tell it."""
    return Usage(prompt_tokens=prompt_estimate(exchange), completion_tokens=completion_tokens, estimated=True)


def prompt_estimate(exchange: Exchange) -> int:
    """Tokens that the prompt may have: by its bytes, and no more than the model can read at once."""
    tokens = len(exchange.body) // BYTES_A_TOKEN
    readable = exchange.context_length
    return readable if tokens > readable > 0 and exchange.inputs is None else tokens


def expected_tokens(exchange: Exchange) -> int:
    """Tokens that a request may use: its prompt, and what it allows for the answer."""
    if exchange.operation in COUNTED or (exchange.knobs and exchange.knobs.get("load_only")):
        return 0
    tokens, readable = prompt_estimate(exchange), exchange.context_length
    if exchange.inputs is not None:
        return tokens
    payload, limit = exchange.payload, exchange.answer_limit
    answers = (_positive(payload["n"]) or 1) if "n" in payload else 1
    expected = tokens + answers * (limit if limit > 0 else _most_completion(payload) or UNLIMITED_COMPLETION)
    most = answers * readable
    return expected if expected < most or not readable else most


def _most_completion(payload: dict[str, Any]) -> int:
    """The limit that the request sets to its answer, in any dialect; 0 when it sets none."""
    for name in LIMITS:
        if name in payload:
            limit = payload[name]
            if isinstance(limit, int) and limit > 0:
                return limit
    options = payload.get("options")
    return _positive(options.get("num_predict")) if isinstance(options, dict) else 0


def _positive(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def take_counts(total: Usage, chunk: dict[str, Any]) -> None:
    """Take over token counts and times from one chunk: `usage` is OpenAI's object, `timings` llama.cpp's."""
    usage, timings = chunk.get("usage"), chunk.get("timings")
    if type(timings) is dict:
        total.cached_tokens = _number(timings.get("cache_n"))
        total.prompt_tokens = _number(timings.get("prompt_n")) + total.cached_tokens
        total.completion_tokens = _number(timings.get("predicted_n"))
        total.prompt_ns = _number(timings.get("prompt_ms"), 1_000_000)
        total.completion_ns = _number(timings.get("predicted_ms"), 1_000_000)
    if type(usage) is dict:
        total.prompt_tokens = _number(usage.get("prompt_tokens"))
        total.completion_tokens = _number(usage.get("completion_tokens"))
        details = usage.get("prompt_tokens_details")
        if type(details) is dict:
            total.cached_tokens = _number(details.get("cached_tokens"))


def _number(value: Any, scale: int = 1) -> int:
    if type(value) is int and scale == 1 and 0 <= value <= MOST:
        return value
    return round(min(max(0, value * scale), MOST)) if isinstance(value, _NUMBER) else 0
