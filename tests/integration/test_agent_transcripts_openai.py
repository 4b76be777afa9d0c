"""What coding agents send to OpenAI's two interfaces, replayed by its official client, streamed and not, against the
real gateway.

A transcript in tests/data/transcripts/openai or responses is a request, the chunks of the child, what the child must
have been asked, and the answer, which has to be the same both ways. `repeated` in a history stands for its turns, so
many times.
"""

import json
from pathlib import Path

import pytest

from tests.support.gateway_under_test import MODEL, GatewayUnderTest
from tests.support.scripted_child import STREAM_HEAD, chunked
from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf
from tests.support.wire import sse

openai = pytest.importorskip("openai")

FOLDER = Path(__file__).parent.parent / "data" / "transcripts"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("agents"), {"buffered_via_stream": True}) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    shared.supervisor.kept.clear()
    return shared.fresh()


@pytest.fixture
def sdk(gateway):
    url = f"http://127.0.0.1:{gateway.supervisor.port}/v1"
    with openai.OpenAI(base_url=url, api_key="k", max_retries=0, timeout=60) as client:
        yield client


def names(kind):
    found = sorted(path.stem for path in (FOLDER / kind).glob("*.json"))
    assert found, kind
    return found


def read(kind, name, most=1000):
    """A transcript, with `repeated` turns up to `most` times."""
    told = json.loads((FOLDER / kind / f"{name}.json").read_text())
    turns = "messages" if kind == "openai" else "input"
    many = [json.loads(json.dumps(turn).replace("call_#", f"call_{number}"))
            for number in range(min(most, told.get("repeat", 0))) for turn in told["repeated"]]
    told["request"][turns] = [turn for given in told["request"][turns]
                              for turn in (many if given == "repeated" else [given])]
    return told


def transcript(gateway, kind, name):
    """The same; the child's part is played to whoever asks."""
    told = read(kind, name)
    gateway.child.play = lambda talk: talk.send(STREAM_HEAD + chunked(sse(told["child"])))
    return told


def asked(gateway):
    return [json.loads(request.body) for request in gateway.child.received if b"/chat/completions" in request.head]


def named(request):
    """A child's request, with its turns and tools by their names."""
    return {**request, "roles": [turn["role"] for turn in request["messages"]],
            "tools": [tool["function"]["name"] for tool in request.get("tools", [])]}


def counts(usage, prompt, completion, details):
    return [getattr(usage, prompt), getattr(usage, completion), getattr(usage, details).cached_tokens]


@pytest.mark.parametrize("name", names("openai"))
def test_chat_completions(gateway, sdk, name):
    """Whole, streamed, and read from what was kept of the stream."""
    told = transcript(gateway, "openai", name)
    rest = dict(told["request"])
    needed = {field: rest.pop(field) for field in ("model", "messages")}
    whole = sdk.chat.completions.create(**needed, extra_body=rest)
    with sdk.chat.completions.stream(**needed, extra_body={**rest, "store": True},
                                     stream_options={"include_usage": True}) as stream:
        streamed = stream.get_final_completion()
    kept = sdk.chat.completions.retrieve(streamed.id)
    added = {"stream": True, "stream_options": {"include_usage": True}}
    told["request"].update(told.get("asked", {}))
    assert asked(gateway) == [{**told["request"], **added}, {**told["request"], **added, "store": True}]
    wanted = told["answer"]
    for answer in (whole, streamed, kept):
        [choice] = answer.choices
        calls = [[call.id, call.function.name, call.function.arguments] for call in choice.message.tool_calls or []]
        assert (choice.message.content or None, choice.finish_reason) == (wanted["content"], wanted["finish_reason"])
        assert calls == wanted["tool_calls"] and choice.message.role == "assistant"
        assert getattr(choice.message, "reasoning_content", None) == wanted.get("reasoning_content")
        assert counts(answer.usage, "prompt_tokens", "completion_tokens", "prompt_tokens_details") == wanted["usage"]


@pytest.mark.parametrize("name", names("responses"))
def test_responses(gateway, sdk, name):
    told = transcript(gateway, "responses", name)
    rest = dict(told["request"])
    needed = {field: rest.pop(field) for field in ("model", "input")}
    whole = sdk.responses.create(**needed, extra_body=rest)
    with sdk.responses.stream(**needed, extra_body=rest) as stream:
        events = list(stream)
    streamed = events[-1].response
    assert [event.sequence_number for event in events] == list(range(len(events)))
    first, second = asked(gateway)
    assert first == second, "the child is asked the same both ways"
    for field, wanted in told["asked"].items():
        assert named(first)[field] == wanted, field
    wanted = told["answer"]
    for answer in (whole, streamed):
        output = plain(answer.to_dict()["output"])
        assert [{**item, **more} for item, more in zip(output, wanted["output"], strict=True)] == output
        assert answer.status == wanted["status"]
        assert counts(answer.usage, "input_tokens", "output_tokens", "input_tokens_details") == wanted["usage"]
    assert [item.type for item in whole.output] == [item.type for item in streamed.output]
    if told["request"].get("store") is not False:
        assert sdk.responses.retrieve(whole.id) == whole


def plain(value):
    """Without what the client's streaming helper adds of its own."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items() if name not in ("parsed", "parsed_arguments")}
    return value


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("home"))
    shell.ok("pull", str(tiny_gguf(shell.home / "solo.gguf")), "--name", MODEL)
    shell.start()
    with openai.OpenAI(base_url=f"{shell.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client
    shell.stop()


@pytest.mark.parametrize("name", names("openai"))
def test_the_real_engine_takes_chat_completions(real, name):
    request = read("openai", name, most=2)["request"]
    needed = {field: request.pop(field) for field in ("model", "messages")}
    answer = real.chat.completions.create(**needed, extra_body={**request, "max_tokens": 2, "max_completion_tokens": 2})
    assert answer.choices[0].finish_reason


@pytest.mark.parametrize("name", names("responses"))
def test_the_real_engine_takes_responses(real, name):
    request = read("responses", name, most=2)["request"]
    needed = {field: request.pop(field) for field in ("model", "input")}
    answer = real.responses.create(**needed, extra_body={**request, "max_output_tokens": 2})
    assert answer.status in ("completed", "incomplete")
