import pytest

from blazar.errors import NotCapable
from blazar.proxy.directory import Directory
from blazar.proxy.stages.capability import Capability
from tests.support.exchanges import exchange_of

DIRECTORY = Directory({"models": {"chat:q4_0": {"capabilities": ["completion", "tools"]},
                                  "words:f16": {"capabilities": ["embedding"]}}})


def ask(model, needs):
    exchange = exchange_of(id="r", dialect=None, operation="o", asked=model, stream=False, body=b"", payload={},
                        model=model, needs=needs)
    Capability(DIRECTORY)(exchange)


@pytest.mark.parametrize(("model", "needs"), [("chat:q4_0", "completion"), ("words:f16", "embedding")])
def test_a_model_that_can(model, needs):
    ask(model, needs)


@pytest.mark.parametrize(("model", "needs", "has"), [("chat:q4_0", "embedding", "completion, tools"),
                                                     ("words:f16", "completion", "embedding")])
def test_a_model_that_cannot_is_told_with_what_it_can(model, needs, has):
    with pytest.raises(NotCapable) as caught:
        ask(model, needs)
    assert caught.value.status == 400
    assert model in caught.value.message and f"({has})" in caught.value.message and f"'{needs}'" in caught.value.message
