import itertools

import pytest

from blazar.proxy.exchange import Exchange, Reply
from blazar.proxy.pipeline import ASKING, GENERATION, LOADING, ORDER, STEPS, UNLOADING, compose
from tests.support.exchanges import exchange_of

BEFORE = [
    # stage, stage after it, why
    ("trace", "name", "a refused name is traced too"),
    ("name", "auth", "no spelling may slip past the allowed models"),
    ("auth", "quota", "whoever may not use the model uses up nothing"),
    ("quota", "capability", "whatever answers after it counts as a request"),
    ("quota", "semantic_cache", "an answer that is kept counts as a request"),
    ("structure", "semantic_cache", "the form that is asked for is part of the question"),
    ("semantic_cache", "retry", "what is kept costs no attempt"),
    ("quota", "retry", "a second attempt is no second request"),
    ("retry", "charge", "each attempt is charged"),
    ("charge", "admission", "what waits for its slot has its tokens reserved"),
    ("auth", "capability", "nothing is told to whom the model is not allowed"),
    ("auth", "knobs", "nothing is told to whom the model is not allowed"),
    ("capability", "admission", "a model that cannot do it is not loaded for it"),
    ("knobs", "retry", "a refused knob costs no attempt"),
    ("quota", "singleflight", "whoever follows has made a request"),
    ("structure", "singleflight", "a form that is refused is refused to each"),
    ("singleflight", "retry", "what is shared is the answer, not an attempt"),
    ("retry", "resolve", "a second attempt looks again"),
    ("resolve", "admission", "the lease is of the resolved endpoint"),
]


@pytest.mark.parametrize(("first", "second", "why"), BEFORE)
def test_order(first, second, why):
    assert ORDER.index(first) < ORDER.index(second), why


def test_admission_is_last_before_the_wire():
    assert ORDER[-1] == "admission"


def test_every_set_checks_the_model():
    for stages in (GENERATION, ASKING, LOADING, UNLOADING):
        assert {"trace", "name", "auth"} <= stages


def exchange() -> Exchange:
    return exchange_of(id="r", dialect=None, operation="chat", asked="m", stream=False, body=b"", payload={})


def recorder(said, name):
    if name in STEPS:
        return lambda exchange: said.append(name)

    def stage(exchange, forward):
        said.append(name)
        try:
            return forward(exchange)
        finally:
            said.append(f"{name} ends")
    return stage


def test_stages_nest_in_order_whatever_the_set_says():
    said = []
    stages = {name: recorder(said, name) for name in ORDER}
    forward = compose(frozenset(ORDER), stages, lambda exchange: said.append("wire") or Reply(200))
    assert forward(exchange()).status == 200
    assert said == [*ORDER, "wire", *(f"{name} ends" for name in reversed(ORDER) if name not in STEPS)]


def test_stages_end_when_the_wire_fails():
    said = []
    stages = {name: recorder(said, name) for name in ORDER}

    def fail(exchange):
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        compose(UNLOADING, stages, fail)(exchange())
    assert said == ["trace", "name", "auth", "trace ends"]


def test_subsets_keep_the_order():
    for pair in itertools.combinations(ORDER, 2):
        said = []
        compose(frozenset(pair), {name: recorder(said, name) for name in pair}, lambda exchange: Reply(200))(exchange())
        assert said[:2] == list(pair)
