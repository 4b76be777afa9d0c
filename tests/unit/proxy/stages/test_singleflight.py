"""Who follows whom; the rest is tested at the real gateway."""

from types import SimpleNamespace

import pytest

from blazar.proxy.exchange import Reply
from blazar.proxy.stages.singleflight import SingleFlight
from blazar.telemetry.metrics import Metrics
from tests.support.exchanges import exchange_of


def exchange(**more):
    made = exchange_of(id="x", dialect=SimpleNamespace(name="openai"), operation="chat", asked="m", stream=False,
                    body=b"{}", payload={}, model="m", **more)
    made.sink = SimpleNamespace(started=False, gone=False)
    return made


@pytest.mark.parametrize(("leads", "asks"), [(True, False), (False, True), (True, True)])
def test_nobody_waits_for_a_line_of_a_batch_nor_such_a_line_for_anybody(leads, asks):
    """It comes after all others, so who followed it would wait for them too."""
    stage, inner = SingleFlight(True, Metrics()), []

    def while_the_first_is_under_way(first):
        stage(exchange(background=asks), lambda second: inner.append(second) or Reply(200))
        return Reply(200)
    assert stage(exchange(background=leads), while_the_first_is_under_way).status == 200
    assert len(inner) == 1


@pytest.mark.parametrize("body", [b"{}", b"x" * 10_000])
@pytest.mark.parametrize("own", [{"knobs": {"seed": 1}}, {"operation": "messages"}, {"model": "other"}, {"body": b"y"}])
def test_what_is_told_apart_late_is_told_apart(body, own):
    """A long body is looked up by its end and length: one that differs at its beginning has an answer of its own."""
    stage, inner = SingleFlight(True, Metrics()), []
    first, second = exchange(), exchange()
    for name, value in {"body": body, **own}.items():
        setattr(first, name, body if name == "body" else getattr(first, name))
        setattr(second, name, value + body[1:] if name == "body" and "body" in own else value)

    def while_the_first_is_under_way(_):
        stage(second, lambda asked: inner.append(asked) or Reply(200))
        return Reply(200)
    assert stage(first, while_the_first_is_under_way).status == 200
    assert inner == [second]
