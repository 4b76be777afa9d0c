import pytest

from blazar.errors import KnobRefused
from blazar.proxy.dialects.ollama import OllamaDialect
from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.stages.knobs import knobs
from tests.support.exchanges import exchange_of


def run(dialect, payload=None, headers=None) -> None:
    exchange = exchange_of(id="r", dialect=dialect, operation="chat", asked="m", stream=False, body=b"",
                        payload=payload or {}, knobs={"load_only": True, **(headers or {})})
    knobs(exchange)


@pytest.mark.parametrize(("dialect", "payload", "headers"), [
    (OllamaDialect(), {}, {}),
    (OllamaDialect(), {"best_of": None, "mcp": "none"}, {}),
    (OpenAIDialect(), {"best_of": 2}, {}),  # OpenAI's own field of /v1/completions
    (OpenAIDialect(), {}, {"x-blazar-mcp": "none"}),
    (OpenAIDialect(), {}, {"x-blazar-enforce": " ON"}),
])
def test_let_through(dialect, payload, headers):
    run(dialect, payload, headers)


@pytest.mark.parametrize(("dialect", "payload", "headers", "named"), [
    (OllamaDialect(), {"best_of": 2}, {}, "best_of"),
    (OllamaDialect(), {"cascade": ["a", "b"]}, {}, "cascade"),
    (OllamaDialect(), {"mcp": "all"}, {}, "mcp"),
    (OpenAIDialect(), {"mcp": "all"}, {}, "mcp"),
    (OpenAIDialect(), {}, {"x-blazar-cascade": "a, b"}, "x-blazar-cascade"),
    (OpenAIDialect(), {}, {"x-blazar-anything": "1"}, "x-blazar-anything"),
    (OpenAIDialect(), {}, {"x-blazar-enforce": "maybe"}, "maybe"),
])
def test_refused_by_name_and_never_ignored(dialect, payload, headers, named):
    with pytest.raises(KnobRefused, match=named) as refused:
        run(dialect, payload, headers)
    assert refused.value.status == 400
