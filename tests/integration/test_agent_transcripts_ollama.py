"""What agents send to Ollama's API, streamed and not, by the official client and as the bytes of others (see
tests/support/transcripts.py): the answers have to be the same."""

import pytest

from tests.support.gateway_under_test import MODEL, GatewayUnderTest
from tests.support.transcripts import check_asked, names, played
from tests.support.wire import ndjson

REFUSED_BY_THE_CLIENT = "arguments-as-text"
"""It knows them as objects alone."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    gateway = GatewayUnderTest(tmp_path_factory.mktemp("agents"))
    gateway.supervisor.facts[MODEL] = {"capabilities": ["completion", "tools", "thinking"]}
    with gateway:
        yield gateway


def joined(lines):
    """One answer of the lines of a stream. Only the last is done, and calls stand before it."""
    *pieces, last = lines
    assert last["done"] and not last["message"].get("tool_calls") and not any(piece["done"] for piece in pieces)
    said = [piece["message"] for piece in lines]
    return {**last, "message": {
        "content": "".join(message["content"] or "" for message in said),
        "thinking": "".join(message.get("thinking") or "" for message in said),
        "tool_calls": [call for message in said for call in message.get("tool_calls") or []]}}


def facts(answer):
    """What a transcript says of an answer."""
    message = answer["message"]
    return {"content": message["content"], "thinking": message.get("thinking") or "",
            "tool_calls": message.get("tool_calls") or [],
            **{field: answer[field] for field in ("done_reason", "prompt_eval_count", "eval_count")}}


@pytest.mark.parametrize("name", names("ollama"))
def test_as_bytes(gateway, name):
    told = played(gateway, name, "ollama")
    streamed = joined(ndjson(gateway.request("POST", "/api/chat", told["request"]).body))
    whole = gateway.request("POST", "/api/chat", {**told["request"], "stream": False}).json()
    assert facts(streamed) == facts(whole) == {"thinking": "", "tool_calls": [], **told["answer"]}
    check_asked(gateway, told)


@pytest.mark.parametrize("name", [name for name in names("ollama") if name != REFUSED_BY_THE_CLIENT])
def test_by_the_official_client(gateway, name):
    ollama = pytest.importorskip("ollama")
    told = played(gateway, name, "ollama")
    client = ollama.Client(host=f"http://127.0.0.1:{gateway.supervisor.port}", timeout=60)
    streamed = joined([piece.model_dump() for piece in client.chat(**told["request"], stream=True)])
    whole = client.chat(**told["request"]).model_dump()
    wanted = {"thinking": "", "tool_calls": [], **told["answer"]}
    for call in wanted["tool_calls"]:  # this client keeps no ids and no places
        del call["id"], call["function"]["index"]
    assert facts(streamed) == facts(whole) == wanted
    check_asked(gateway, told)
