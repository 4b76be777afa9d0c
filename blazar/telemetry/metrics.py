"""Kinds of metrics, and every number that a gateway worker keeps of itself, declared once.

To count is a dictionary look-up and an addition: no lock, no I/O. Whoever counts the same thing again and again keeps
its `Count` or `Series`, and does without the look-up. One thread, or one event loop, counts and reads.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from blazar.telemetry.exposition import Family, Sample, number, page

SHORT: Final[tuple[float, ...]] = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""Bucket bounds, in seconds, for what the gateway itself takes, and for the time between tokens."""
LONG: Final[tuple[float, ...]] = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
                                  300.0, 900.0)
"""Bucket bounds, in seconds, for waiting: for a slot, for a load, for a prompt to be read."""

MANY: Final = 256
"""Values of a series that wait for their buckets at most: sorted together they cost a fraction of one at a time."""

Labels = tuple[str, ...]


class Metric:
    """A name, what it means, and the names of its labels."""

    kind = ""

    def __init__(self, name: str, meaning: str, *labels: str) -> None:
        self.name = name
        self.meaning = meaning
        self.labels = labels

    def family(self) -> Family:
        """The metric with what it tells now."""
        return Family(self.name, self.kind, self.meaning, list(self._samples()))

    def text(self) -> str:
        """The metric as Prometheus reads it."""
        return self.family().text()

    def _samples(self) -> Iterator[Sample]:
        raise NotImplementedError

    def _sample(self, value: float, values: Labels, suffix: str = "", *more: tuple[str, str]) -> Sample:
        return Sample(suffix, (*zip(self.labels, values, strict=True), *more), number(value))


CLASSES: Final = tuple(f"{hundreds}xx" for hundreds in range(10))


def status_class(status: int) -> str:
    """The class of an HTTP status, for a label: 404 -> 4xx."""
    return CLASSES[status // 100]


class Count:
    """One number of a counter: `n` is what whoever keeps it adds to."""

    __slots__ = ("n",)

    def __init__(self) -> None:
        self.n = 0


class Counter(Metric):
    """Only grows."""

    kind = "counter"

    def __init__(self, name: str, meaning: str, *labels: str) -> None:
        super().__init__(name, meaning, *labels)
        self._counts: dict[Labels, Count] = {} if labels else {(): Count()}

    def add(self, *labels: str, by: int = 1) -> None:
        count = self._counts.get(labels) or self.count(*labels)
        count.n += by

    def count(self, *labels: str) -> Count:
        """The number of these labels, which is told from now on, for whoever adds to it often."""
        found = self._counts.get(labels)
        if found is None:
            found = self._counts[labels] = Count()
        return found

    def value(self, *labels: str) -> int:
        found = self._counts.get(labels)
        return found.n if found is not None else 0

    def values(self) -> dict[Labels, int]:
        """All counts as they are now, by their labels."""
        return {labels: count.n for labels, count in self._counts.items()}

    def _samples(self) -> Iterator[Sample]:
        return (self._sample(count.n, labels) for labels, count in sorted(self._counts.items(), key=_by_labels))


class Gauge(Metric):
    """What is at this moment: `read` is asked for it when somebody looks."""

    kind = "gauge"

    def __init__(self, name: str, meaning: str) -> None:
        super().__init__(name, meaning)
        self.read: Callable[[], float] = lambda: 0

    def _samples(self) -> Iterator[Sample]:
        yield self._sample(self.read(), ())


class GaugeBy(Metric):
    """The same for each of several things: `read` gives the numbers by name."""

    kind = "gauge"

    def __init__(self, name: str, meaning: str, label: str) -> None:
        super().__init__(name, meaning, label)
        self.read: Callable[[], Mapping[str, float]] = lambda: {}

    def _samples(self) -> Iterator[Sample]:
        return (self._sample(value, (name,)) for name, value in sorted(self.read().items()))


class StateGauge(Metric):
    """Which of a few states something is in: 1 for that one, 0 for the others. `read` gives the state by name."""

    kind = "gauge"

    def __init__(self, name: str, meaning: str, label: str, state: str, states: tuple[str, ...]) -> None:
        super().__init__(name, meaning, label, state)
        self._states = states
        self.read: Callable[[], Mapping[str, str]] = lambda: {}

    def _samples(self) -> Iterator[Sample]:
        return (self._sample(int(state == now), (name, state)) for name, now in sorted(self.read().items())
                for state in self._states)


class Levels(Metric):
    """What is at this moment for each of several things, told by several labels: `read` gives the numbers."""

    kind = "gauge"

    def __init__(self, name: str, meaning: str, *labels: str) -> None:
        super().__init__(name, meaning, *labels)
        self.read: Callable[[], Mapping[Labels, float]] = lambda: {}

    def _samples(self) -> Iterator[Sample]:
        return (self._sample(value, labels) for labels, value in sorted(self.read().items()))


class Histogram(Metric):
    """How often a value fell below each bound, how many there were, and their sum."""

    kind = "histogram"

    def __init__(self, name: str, meaning: str, bounds: tuple[float, ...], *labels: str) -> None:
        super().__init__(name, meaning, *labels)
        self._bounds = bounds
        self._series: dict[Labels, Series] = {} if labels else {(): Series(bounds)}

    def observe(self, value: float, *labels: str) -> None:
        found = self._series.get(labels) or self.series(*labels)
        found.observe(value)

    def series(self, *labels: str) -> "Series":
        """The buckets of these labels, for whoever observes many values of one kind."""
        found = self._series.get(labels)
        if found is None:
            found = self._series[labels] = Series(self._bounds)
        return found

    def settle(self) -> None:
        """Put all fresh values into their buckets."""
        for series in self._series.values():
            series.settle()

    def _samples(self) -> Iterator[Sample]:
        for labels, series in sorted(self._series.items(), key=_by_labels):
            total = 0
            for bound, count in zip((*map(repr, self._bounds), "+Inf"), series.counts, strict=True):
                total += count
                yield self._sample(total, labels, "_bucket", ("le", bound))
            yield self._sample(series.sum, labels, "_sum")
            yield self._sample(total, labels, "_count")


def _by_labels(item: tuple[Labels, object]) -> Labels:
    return item[0]


class Series:
    """One row of buckets."""

    __slots__ = ("_bounds", "_counts", "_sum", "fresh")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self.fresh: list[float] = []
        """Values that are in no bucket yet. Always this list: who appends to it calls `settle` when it has MANY."""

    def observe(self, value: float) -> None:
        fresh = self.fresh
        fresh.append(value)
        if len(fresh) >= MANY:
            self.settle()

    @property
    def counts(self) -> list[int]:
        """Values within each bound and beyond the one before; the last is beyond all."""
        self.settle()
        return self._counts

    @property
    def sum(self) -> float:
        self.settle()
        return self._sum

    def settle(self) -> None:
        """Put the fresh values into their buckets."""
        fresh, counts, before = self.fresh, self._counts, 0
        self._sum += sum(fresh)
        fresh.sort()
        for bucket, bound in enumerate(self._bounds):
            within = bisect_right(fresh, bound, before)
            counts[bucket] += within - before
            before = within
        counts[-1] += len(fresh) - before
        fresh.clear()


class Table:
    """Metrics as the attributes of one object, in the order in which they are told."""

    def every(self) -> list[Metric]:
        # A compiled object has no dictionary: its class names the attributes, in the same order.
        names = getattr(self, "__dict__", None) or type(self).__dict__
        return [value for value in (getattr(self, name) for name in names) if isinstance(value, Metric)]

    def settle(self) -> None:
        """Have no histogram's values wait for their buckets any more."""
        for metric in self.every():
            if isinstance(metric, Histogram):
                metric.settle()

    def families(self) -> list[Family]:
        return [metric.family() for metric in self.every()]

    def text(self) -> bytes:
        """All of them in Prometheus's text format."""
        return page(self.families()).encode()


class Metrics(Table):
    """The gateway's metrics. An API key is named by its name, '' when there is none."""

    def __init__(self) -> None:
        self.catch_up: Callable[[], None] = _nothing
        """Counts what has happened and is not counted yet."""
        self.requests = Counter("blazar_requests_total", "Requests answered, by the class of their status; `gone` "
                                "when the client left before its answer.", "dialect", "operation", "status")
        self.in_flight = Gauge("blazar_requests_in_flight", "Requests for a model that are under way.")
        self.generations = Counter("blazar_generations_total", "Requests for a model that have ended, one for each "
                                   "line of the audit log.", "dialect", "operation", "status")
        self.queue = Histogram("blazar_queue_seconds", "Wait for a slot of a ready model, whatever the reason.", LONG,
                               "model")
        self.parked = GaugeBy("blazar_requests_parked", "Requests that wait for a slot of their model, or for its "
                              "load.", "model")
        self.refused = Counter("blazar_queue_refusals_total", "Requests refused because too many others waited: "
                               "`full`, or `timeout` after they had waited themselves.", "model", "reason")
        self.load = Histogram("blazar_load_seconds", "Wait for the supervisor to have the model ready, where it had "
                              "to be asked.", LONG, "model")
        self.first_byte = Histogram("blazar_first_byte_seconds", "From the whole request to the first byte of its "
                                    "answer.", LONG, "model")
        self.inter_token = Histogram("blazar_inter_token_seconds", "Between two pieces of a stream, as the child "
                                     "sends them.", SHORT, "model")
        self.overhead = Histogram("blazar_overhead_seconds", "What the gateway itself added to a request before the "
                                  "first byte of its answer.", SHORT)
        self.prompt_tokens = Counter("blazar_prompt_tokens_total", "Tokens of prompts, cached ones included.",
                                     "key", "model")
        self.completion_tokens = Counter("blazar_completion_tokens_total", "Tokens of answers.", "key", "model")
        self.quota_refusals = Counter("blazar_quota_refusals_total", "Requests refused because of a limit of their "
                                      "API key.", "key", "limit")
        self.disconnects = Counter("blazar_client_disconnects_total", "Clients that left before their answer ended.")
        self.slow_clients = Counter("blazar_slow_clients_total", "Clients cut off because they did not read.")
        self.retries = Counter("blazar_retries_total", "Second attempts, after a stale connection, or "
                               "a child that came to a standstill.")
        self.wedged = Counter("blazar_wedged_children_total", "Children that were ended because they did nothing with "
                              "their requests.", "model")
        self.stalls = Counter("blazar_stalled_answers_total", "Answers that brought nothing for sentinel_stall_secs: "
                              "`ended` with their child, or `kept` since it works.", "model", "outcome")
        self.coalesced = Counter("blazar_coalesced_total", "Requests that got the answer to an identical one.",
                                 "dialect", "model")
        self.truncated = Counter("blazar_prompts_truncated_total", "Prompts of which the engine says that it has read "
                                 "less than it was sent.", "model")
        self.structured = Counter("blazar_structured_answers_total", "Answers whose form was checked: `kept`, "
                                  "`violated`, or `unchecked` where that could not be told.", "dialect", "model",
                                  "verdict")
        self.semantic_cache = Counter("blazar_semantic_cache_total", "Requests for which the semantic cache was asked: "
                                      "`hit`, `miss`, or `bypass` where their answers are not kept.", "model",
                                      "outcome")
        self.listeners = Gauge("blazar_event_listeners", "Clients that listen to /api/events.")
        self.audit_lost = Counter("blazar_audit_lost_total", "Lines that could not be written to the audit log.")

    def families(self) -> list[Family]:
        self.catch_up()
        return super().families()


def _nothing() -> None:
    """All is counted."""
