"""`make bench-cost`: a stage is charged with what it takes, and only that."""

import time
from types import SimpleNamespace

import pytest

from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.pipeline import ORDER, STEPS, compose
from blazar.proxy.rates import RATE_HEADERS
from tools.bench import cost

SLOW_US = 300


def spin(us):
    until = time.thread_time_ns() + 1000 * us
    while time.thread_time_ns() < until:
        pass


@pytest.fixture
def gateway():
    """Stages that do nothing, but for one."""
    def stage(exchange, forward):
        return forward(exchange)

    def slow(exchange, forward):
        spin(SLOW_US / 3)
        try:
            return forward(exchange)
        finally:
            spin(2 * SLOW_US / 3)

    stages = {**dict.fromkeys(ORDER, stage), **dict.fromkeys(STEPS, lambda exchange: None), "retry": slow}
    return SimpleNamespace(dialects={"openai": OpenAIDialect()}, keys=SimpleNamespace(identify=lambda headers: None),
                           pipeline=lambda names, last: compose(names, stages, last))


def test_each_stage_is_charged_with_what_it_takes_before_and_after(gateway):
    costs = {one.name: one.us for one in cost.measure(gateway, calls=5, samples=5)}
    assert list(costs) == ["key", "parse", *(name for name in ORDER if name != "lease")]
    assert costs["retry"] == pytest.approx(SLOW_US, rel=0.3)
    assert all(abs(us) < SLOW_US / 3 for name, us in costs.items() if name != "retry")


def test_the_parse_is_not_counted_as_a_feature():
    assert cost.total([cost.Cost("key", 1.0), cost.Cost("parse", 9.0), cost.Cost("trace", 2.5)]) == 3.5


def test_the_real_gateway_can_be_measured():
    with cost.gateway() as gateway:
        costs = cost.measure(gateway, calls=20, samples=3) + cost.around(gateway, calls=20, samples=3)
    by_name = {one.name: one.us for one in costs}
    assert len(by_name) == len(costs) and set(by_name) >= set(ORDER) - {"lease"}
    assert "headers" in by_name
    for name in ("request id", "token counts", "overhead", "answers counted"):
        assert by_name[name] > 0, name
    assert 0 < cost.total(costs) < 5000


def test_the_answer_that_is_metered_tells_its_tokens():
    with cost.gateway() as gateway:
        exchange = cost.whole_exchange(gateway)
    told = cost.metered(cost.ANSWER)
    assert (told.prompt_tokens, told.completion_tokens) == (cost.USAGE.prompt_tokens, cost.USAGE.completion_tokens)
    assert [name for name, _ in exchange.headers] == ["X-Request-Id", *RATE_HEADERS[:6]]
