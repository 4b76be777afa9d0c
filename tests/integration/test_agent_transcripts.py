"""What coding agents send, replayed by Anthropic's official client, streamed and not, against the real gateway.

The transcripts stand in tests/data/transcripts (see tests/support/transcripts.py); answers are the same both ways.
"""

import pytest

from tests.support.gateway_under_test import GatewayUnderTest
from tests.support.transcripts import check_asked, names, played

anthropic = pytest.importorskip("anthropic")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("agents")) as gateway:
        yield gateway


@pytest.mark.parametrize("name", names())
def test_streamed_and_whole_answers_are_equal(gateway, name):
    told = played(gateway, name)
    needed = {field: told["request"].pop(field) for field in ("model", "max_tokens", "messages")}
    url = f"http://127.0.0.1:{gateway.supervisor.port}"
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0, timeout=60) as client:
        whole = client.beta.messages.create(**needed, extra_body=told["request"], betas=["made-up-2030-01-01"])
        with client.messages.stream(**needed, extra_body=told["request"]) as stream:
            streamed = stream.get_final_message()
    check_asked(gateway, told)
    wanted = told["answer"]
    for answer in (whole, streamed):
        content = [block.to_dict() for block in answer.content]
        assert [{**block, **more} for block, more in zip(content, wanted["content"], strict=True)] == content
        assert (answer.stop_reason, answer.stop_sequence) == (wanted["stop_reason"], wanted["stop_sequence"])
        for count in set(wanted) - {"content", "stop_reason", "stop_sequence"}:
            assert getattr(answer.usage, count) == wanted[count]
    assert [block.to_dict() for block in whole.content] == [block.to_dict() for block in streamed.content]
