import json

import pytest

from blazar.errors import ChildFailed, ShuttingDown
from blazar.proxy.auth import ApiKey
from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.endings import MOST
from blazar.proxy.exchange import ClientGone, ClientSlow, Reply, Usage
from blazar.proxy.ledger import Ledger
from blazar.proxy.stages.trace import WAITING, Trace
from blazar.telemetry.audit import AuditLog
from blazar.telemetry.metrics import MANY, Metrics
from tests.support.exchanges import exchange_of

OWN = ("id", "prompt_tokens", "completion_tokens", "load_ms", "queue_ms", "first_byte_ms", "total_ms")
"""Fields of an audit line in which requests that end alike differ."""


class Sink:
    """How far an answer came."""

    def __init__(self, status=0, gone=False):
        self.started, self.status, self.gone = bool(status), status, gone


class Bench:
    def __init__(self, folder):
        self.now = 50.0
        self.ledger, self.metrics, self.file = Ledger(lambda: self.now), Metrics(), folder / "audit.jsonl"
        self.audit = AuditLog(self.file)

    def run(self, exchange, outcome):
        def forward(_):
            self.now += 2.5
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        assert self.ledger.under_way() == 0
        trace = Trace(self.ledger, self.metrics, self.audit, lambda: 1767225600.0)
        try:
            return trace(exchange, forward)
        finally:
            assert self.ledger.under_way() == 0
            self.now += 1.0  # which passes before it is noted
            trace.settle()

    def line(self):
        line, = self.file.read_text().splitlines()
        return json.loads(line)


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


def exchange(sink, **more):
    made = exchange_of(id="req_1", dialect=OpenAIDialect(), operation="chat", asked="Solo", stream=True, body=b"",
                    payload={}, model="solo:q4_0", **more)
    made.sink = sink
    return made


def test_a_good_answer(bench):
    asked = exchange(Sink(200), started=49.5, first_byte=51.0, overhead=0.0007, load_ns=250_000_000,
                     api_key=ApiKey("ann", b""), usage=Usage(prompt_tokens=7, completion_tokens=3))
    assert bench.run(asked, Reply(200)).status == 200
    assert bench.line() == {
        "time": "2026-01-01T00:00:00.000000Z", "id": "req_1", "key": "ann", "dialect": "openai", "operation": "chat",
        "asked": "Solo", "alias": None, "model": "solo:q4_0", "stream": True, "status": 200, "error": None,
        "client_gone": False,
        "prompt_tokens": 7, "completion_tokens": 3, "estimated": False, "truncated": False, "structure": None,
        "coalesced": False, "cache": None, "load_ms": 250.0, "queue_ms": 0.0,
        "first_byte_ms": 1500.0, "total_ms": 3000.0}
    assert bench.metrics.generations.value("openai", "chat", "2xx") == 1
    assert bench.metrics.first_byte.series("solo:q4_0").sum == 1.5
    assert bench.metrics.overhead.series().sum == 0.0007


@pytest.mark.parametrize(("sink", "outcome", "status", "slug", "gone"), [
    (Sink(), ChildFailed("x"), 502, "child-failed", False),
    (Sink(), ZeroDivisionError(), 500, "error", False),
    (Sink(), ClientGone(), 499, None, True),
    (Sink(200), ClientGone(), 200, None, True),
    (Sink(200), ClientSlow(), 200, None, True),
    (Sink(200), ZeroDivisionError(), 200, "error", False),
    (Sink(), KeyboardInterrupt(), 500, None, False),
    (Sink(200, gone=True), ClientGone(), 200, None, True)])
def test_what_was_raised(bench, sink, outcome, status, slug, gone):
    with pytest.raises(type(outcome)):
        bench.run(exchange(sink), outcome)
    line = bench.line()
    assert (line["status"], line["error"], line["client_gone"]) == (status, slug, gone)
    assert bench.metrics.generations.value("openai", "chat", f"{status // 100}xx") == 1
    assert bench.metrics.slow_clients.value() == (type(outcome) is ClientSlow)
    assert bench.metrics.disconnects.value() == (gone and type(outcome) is not ClientSlow)


def test_who_leaves_once_all_is_said_has_not_left_early(bench):
    bench.run(exchange(Sink(200, gone=True)), Reply(200))
    assert bench.line()["client_gone"] is False and bench.metrics.disconnects.value() == 0


def test_an_error_told_inside_a_stream(bench):
    bench.run(exchange(Sink(200)), Reply(200, complete=False, error=ShuttingDown()))
    assert (bench.line()["status"], bench.line()["error"]) == (200, "shutting-down")


def test_who_comes_after_the_end_is_noted_too(bench):
    bench.ledger.end_all(ShuttingDown())
    with pytest.raises(ShuttingDown):
        bench.run(exchange(Sink()), Reply(200))
    assert (bench.line()["status"], bench.line()["error"]) == (503, "shutting-down")


def test_what_cannot_be_written_is_counted(bench, tmp_path):
    bench.audit.close()
    assert bench.run(exchange(Sink(200)), Reply(200)).status == 200
    assert bench.metrics.audit_lost.value() == 1


def test_names_cannot_break_a_line(bench):
    asked = exchange(Sink(200))
    asked.asked = 'a"\n{"id":"forged"}\n' + "x" * 5000
    bench.run(asked, Reply(200))
    assert bench.line()["id"] == "req_1" and len(bench.line()["asked"]) == 200


def test_requests_that_end_alike_have_their_own_numbers(bench):
    long = exchange(Sink(200), first_byte=51.0, overhead=0.5, load_ns=1_000_000, queue_ns=2_000_000, cache="miss",
                    usage=Usage(7, 3))
    plain = exchange(Sink(200), cache="miss", usage=Usage(8, 0))
    plain.id = "req_2"
    for asked in (long, plain):
        bench.run(asked, Reply(200))
    first, second = map(json.loads, bench.file.read_text().splitlines())
    assert [first[name] for name in OWN] == ["req_1", 7, 3, 1.0, 2.0, 1000.0, 2500.0]
    assert [second[name] for name in OWN] == ["req_2", 8, 0, 0.0, 0.0, None, 2500.0]
    assert {name for name in first if first[name] != second[name]} <= set(OWN) and first["cache"] == "miss"
    assert bench.metrics.generations.value("openai", "chat", "2xx") == 2
    assert sum(bench.metrics.first_byte.series("solo:q4_0").counts) == 1
    assert bench.ledger.finished.last(9, None) == [{**second, "path": ""}, {**first, "path": ""}]


def test_a_model_without_an_answer_has_no_time_of_one(bench):
    bench.run(exchange(Sink(200)), Reply(200))
    assert "solo" not in bench.metrics.first_byte.text()


def test_any_number_of_names_takes_a_bounded_room(bench):
    trace = Trace(bench.ledger, bench.metrics, bench.audit)
    for number in range(2 * MOST):
        asked = exchange(Sink(200))
        asked.asked = f"%s{number}"
        trace(asked, lambda _: Reply(200))
    trace.settle()
    assert len(trace._known) <= MOST and bench.metrics.generations.value("openai", "chat", "2xx") == 2 * MOST
    assert [json.loads(line)["asked"] for line in bench.file.read_text().splitlines()] == [
        f"%s{number}" for number in range(2 * MOST)]


def test_values_of_many_requests_are_kept_for_a_moment_only(bench):
    trace = Trace(bench.ledger, bench.metrics, None)
    for _ in range(3 * MANY - 1):
        trace(exchange(Sink(200), started=49.5, first_byte=50.0), lambda _: Reply(200))
    trace.settle()
    for series in (bench.metrics.first_byte.series("solo:q4_0"), bench.metrics.overhead.series()):
        assert len(series.fresh) == MANY - 1 and sum(series.counts) == 3 * MANY - 1


def test_they_are_noted_a_moment_later_but_no_more_than_some_wait(bench):
    trace, asked_for = Trace(bench.ledger, bench.metrics, bench.audit), []
    trace.soon = lambda: asked_for.append(len(bench.file.read_text()))
    for _ in range(WAITING):
        trace(exchange(Sink(200)), lambda _: Reply(200))
    assert asked_for == [0] and bench.file.read_text() == "", "it is asked for once, and nothing is written yet"
    trace(exchange(Sink(200)), lambda _: Reply(200))
    assert len(bench.file.read_text().splitlines()) == WAITING + 1
    trace(exchange(Sink(200)), lambda _: Reply(200))
    assert len(asked_for) == 2


def test_while_a_child_is_waited_for_they_are_noted_if_nobody_else_is_served(bench):
    trace, written = Trace(bench.ledger, bench.metrics, bench.audit), []

    def asks(_):
        trace.meanwhile()
        written.append(len(bench.file.read_text().splitlines()))
        return Reply(200)

    def beside(_):
        return trace(exchange(Sink(200)), asks)

    trace(exchange(Sink(200)), asks)
    trace(exchange(Sink(200)), asks)
    assert written == [0, 1], "the one before"
    trace(exchange(Sink(200)), beside)
    assert written == [0, 1, 1], "two are under way"


def test_one_that_cannot_be_noted_does_not_keep_the_others_from_it(bench):
    trace = Trace(bench.ledger, bench.metrics, bench.audit)
    odd = exchange(Sink(200))
    odd.usage = object()
    for asked in (exchange(Sink(200)), odd, exchange(Sink(200))):
        trace(asked, lambda _: Reply(200))
    trace.settle()
    assert len(bench.file.read_text().splitlines()) == 2
