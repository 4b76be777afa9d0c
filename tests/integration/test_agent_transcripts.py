"""What coding agents send, replayed by Anthropic's official client, streamed and not, against the real gateway.

A transcript in tests/data/transcripts is a request, the chunks of the child, what the child must have been asked, and
the answer, which has to be the same both ways.
"""

import json
from pathlib import Path

import pytest

from tests.support.gateway_under_test import GatewayUnderTest
from tests.support.scripted_child import STREAM_HEAD, chunked, json_answer
from tests.support.wire import sse

anthropic = pytest.importorskip("anthropic")

FOLDER = Path(__file__).parent.parent / "data" / "transcripts"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("agents")) as gateway:
        yield gateway


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.json")))
def test_streamed_and_whole_answers_are_equal(gateway, name):
    told = json.loads((FOLDER / f"{name}.json").read_text())
    gateway.fresh().child.play = lambda talk: talk.send(
        STREAM_HEAD + chunked(sse(told["child"])) if b"/chat/completions" in talk.request.head else
        json_answer(b'{"prompt":"abc","tokens":[1,2,3]}'))
    needed = {field: told["request"].pop(field) for field in ("model", "max_tokens", "messages")}
    url = f"http://127.0.0.1:{gateway.supervisor.port}"
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0, timeout=60) as client:
        whole = client.beta.messages.create(**needed, extra_body=told["request"], betas=["made-up-2030-01-01"])
        with client.messages.stream(**needed, extra_body=told["request"]) as stream:
            streamed = stream.get_final_message()
        counted = client.beta.messages.count_tokens(model=needed["model"], messages=needed["messages"],
                                                    extra_body=told["request"])
        assert counted.input_tokens == 3, "agents ask this before they go on"
    first, second = (json.loads(request.body) for request in gateway.child.received
                     if b"/chat/completions" in request.head)
    assert first == second, "the child is asked the same both ways"
    for field, wanted in told["asked"].items():
        assert (len(first.get(field, [])) if field in ("messages", "tools") else first[field]) == wanted
    wanted = told["answer"]
    for answer in (whole, streamed):
        content = [block.to_dict() for block in answer.content]
        assert [{**block, **more} for block, more in zip(content, wanted["content"], strict=True)] == content
        assert (answer.stop_reason, answer.stop_sequence) == (wanted["stop_reason"], wanted["stop_sequence"])
        for count in set(wanted) - {"content", "stop_reason", "stop_sequence"}:
            assert getattr(answer.usage, count) == wanted[count]
    assert [nameless(block) for block in whole.content] == [nameless(block) for block in streamed.content]


def nameless(block):
    """Without the id, which is a new one each time where the child gave none."""
    return {**block.to_dict(), "id": None}
