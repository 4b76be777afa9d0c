"""`python -m tools.bench.cost [--json]`: what each of Blazar's features costs a hot request, in microseconds of CPU.

The real gateway's stages run in this process, around a last step that does nothing: no sockets, no engine. A stage
costs what the pipeline with it takes more than the one that ends before it. Besides there are the request's id, the
reading of the answer's token counts, the header of the overhead, what all the headers add to making the head, and the
count of answers. Of several samples the smallest counts, since whatever disturbs one only adds to it.

NOT_IN_IT says what is left out: what a gateway does that adds nothing, and what is not done once for each request.
"""

import argparse
import contextlib
import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blazar.config.active import ACTIVE
from blazar.paths import Paths
from blazar.proxy.batches.inner import BufferSink
from blazar.proxy.exchange import Exchange, Reply, Usage
from blazar.proxy.gateway import Gateway
from blazar.proxy.meter import Meter
from blazar.proxy.pipeline import GENERATION, ORDER
from blazar.proxy.receipts import overhead
from blazar.proxy.request import Ids
from blazar.proxy.wire.sinks import SocketSink
from blazar.proxy.wire.stock import StockClient
from tests.support.fake_supervisor import FakeSupervisor, endpoint
from tools.bench.blazar_target import KEY_NAMES, limits

MODEL = "bench:latest"
CALLS = 1000
SAMPLES = 15
HEADERS = {"authorization": "Bearer bench-key-0", "content-type": "application/json", "x-request-id": "bench"}
BODY = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "Say hello in one short sentence."}],
                   "temperature": 0.7, "max_tokens": 64}).encode()
SINK = BufferSink()
SINK.start(200, [])
USAGE = Usage(prompt_tokens=8, completion_tokens=16)
HOT = tuple(name for name in ORDER if name in GENERATION)
"""The stages of a hot request, in their order."""
OUTSIDE = "parse"
"""Shown, and not a feature: any gateway that routes by model has to read the body."""
ANSWER = (b'{"choices":[{"finish_reason":"stop","index":0,"message":{"role":"assistant","content":"Hello there!"}}],'
          b'"usage":{"completion_tokens":16,"prompt_tokens":8,"total_tokens":24},"timings":{"cache_n":0,"prompt_n":8}}')
PLAIN = [("Content-Type", "application/json"), ("Content-Length", str(len(ANSWER)))]
"""The headers that an answer would have without any feature."""
NOT_IN_IT = ("reading head and body, finding the route, asking the engine, passing the answer on; the times between "
             "the tokens of streams; and what is done once for many: reports to the supervisor, rotating the log")
Timed = Mapping[str, tuple[Callable[[Any], Any], Callable[[], Any]]]
"""By name what is called, and what makes its argument."""


@dataclass(frozen=True)
class Cost:
    name: str
    us: float


def total(costs: list[Cost]) -> float:
    """What the features cost together."""
    return sum(cost.us for cost in costs if cost.name != OUTSIDE)


def measure(gateway: Gateway, calls: int = CALLS, samples: int = SAMPLES) -> list[Cost]:
    """The cost of the API key's check, of the body's parse, and of each stage."""
    exchanges = _exchanges(gateway)

    def staged(count: int) -> Callable[[Any], Any]:
        return gateway.pipeline(frozenset(HOT[:count]), _answered)

    best = _best({"key": (gateway.keys.identify, lambda: HEADERS), OUTSIDE: (lambda _: exchanges(), lambda: None),
                  **{name: (staged(count), exchanges) for count, name in enumerate(("", *HOT))}}, calls, samples)
    stages = [Cost(name, best[name] - best[before]) for before, name in zip(("", *HOT), HOT, strict=False)]
    return [*(Cost(name, best[name]) for name in ("key", OUTSIDE)), *stages]


def around(gateway: Gateway, calls: int = CALLS, samples: int = SAMPLES) -> list[Cost]:
    """The cost of what is done for a request outside of the stages."""
    exchange = whole_exchange(gateway)
    ids, sink = Ids(), SocketSink(StockClient(_Nowhere()))
    counts = {200: gateway.metrics.requests.count("openai", "chat", "2xx")}
    headers = [*exchange.headers, overhead(exchange), *PLAIN]

    def counted(status: int) -> None:
        counts[status].n += 1

    def send(told: list[tuple[str, str]]) -> None:
        sink.give(200, told, ANSWER)

    best = _best({"request id": (lambda _: ids.new(), lambda: None), "token counts": (metered, lambda: ANSWER),
                  "overhead": (overhead, lambda: exchange), "answers counted": (counted, lambda: 200),
                  "headers": (send, lambda: headers), "": (send, lambda: PLAIN)}, calls, samples)
    plain = best.pop("")
    return [Cost(name, us - plain if name == "headers" else us) for name, us in best.items()]


def _exchanges(gateway: Gateway) -> Callable[[], Exchange]:
    """Makes one after the other, each of the same request."""
    dialect = gateway.dialects["openai"]
    key = gateway.keys.identify(HEADERS)

    def exchange() -> Exchange:
        made = dialect.parse("chat", BODY, HEADERS, "bench")
        made.api_key, made.sink, made.headers = key, SINK, [("X-Request-Id", "bench")]
        return made
    return exchange


def _best(timed: Timed, calls: int, samples: int) -> dict[str, float]:
    """Microseconds of one call of each."""
    best = dict.fromkeys(timed, float("inf"))
    for _ in range(samples):
        for name, (call, argument) in timed.items():
            best[name] = min(best[name], _microseconds(call, [argument() for _ in range(calls)]))
    return best


def whole_exchange(gateway: Gateway) -> Exchange:
    """One that has been through all stages."""
    exchange = _exchanges(gateway)()
    gateway.pipeline(frozenset(HOT), _answered)(exchange)
    return exchange


def metered(answer: bytes) -> Usage | None:
    """What a child tells of its answer, as it is found while that passes."""
    meter = Meter()
    meter.add(answer, 1.0)
    return meter.counts()


class _Nowhere:
    """A socket that takes everything at once."""

    def sendall(self, data: bytes) -> None:
        """It is gone."""


def _answered(exchange: Exchange) -> Reply:
    """In place of dispatch: notes of a good answer what dispatch would."""
    exchange.usage, exchange.sent, exchange.first_byte = USAGE, exchange.started, exchange.started + 0.001
    return Reply(200, usage=USAGE)


def _microseconds(call: Callable[[Any], Any], arguments: list[Any]) -> float:
    began = time.thread_time_ns()
    for argument in arguments:
        call(argument)
    return (time.thread_time_ns() - began) / 1000 / len(arguments)


@contextlib.contextmanager
def gateway() -> Iterator[Gateway]:
    """The gateway of a supervisor that says the model is loaded, with eight API keys and their limits."""
    with tempfile.TemporaryDirectory(prefix="blazar-bench-") as name:
        folder = Paths(Path(name)).ensure().data_dir
        keys = [{"name": name, "key": f"bench-key-{number}", **limits(ACTIVE)} for number, name in enumerate(KEY_NAMES)]
        supervisor = FakeSupervisor(folder, [MODEL], {"keys": keys})
        supervisor.loaded[MODEL] = endpoint(MODEL, ("127.0.0.1", 9), slots=4096)
        supervisor.open_control()
        try:
            yield Gateway.connect(next(folder.rglob("control.sock")))
        finally:
            supervisor.close_control()


def main() -> int:
    parser = argparse.ArgumentParser("python -m tools.bench.cost", description="What each stage costs.")
    parser.add_argument("--json", action="store_true", help="print {stage: microseconds} alone")
    options = parser.parse_args()
    logging.getLogger("blazar").setLevel(logging.ERROR)  # that we leave at the end is no news
    with gateway() as measured:
        costs = [*measure(measured), *around(measured)]
    if options.json:
        print(json.dumps({"total": total(costs), **{cost.name: cost.us for cost in costs}}))
        return 0
    for cost in costs:
        print(f"{cost.us:8.2f} µs  {cost.name}{'  (not counted as a feature)' if cost.name == OUTSIDE else ''}")
    print(f"{total(costs):8.2f} µs  all features of a hot request\nNot in it: {NOT_IN_IT}.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
