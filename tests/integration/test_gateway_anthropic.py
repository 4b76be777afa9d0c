"""What a child is asked for Anthropic's tool results (FC-17) and token counts (FC-18)."""

import json

import pytest

from tests.support.fake_supervisor import endpoint
from tests.support.gateway_under_test import MODEL, GatewayUnderTest, is_error_of
from tests.support.scripted_child import json_answer

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
BLIND = "blind:q4_0"
"""A model that cannot see; the other can."""
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("anthropic")
    gateway = GatewayUnderTest(folder, {"keys": [{"name": "a", "key": "KEY"}]}, sees=True, installed=(MODEL, BLIND))
    gateway.supervisor.loaded[BLIND] = endpoint(BLIND, gateway.child.address, 2)
    with gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


# -- FC-17 -----------------------------------------------------------------------------------------------


def text(words):
    return {"type": "text", "text": words}


def result(number, *content, **more):
    """The result of call `t<number>`; without content it has no such key."""
    return {"type": "tool_result", "tool_use_id": f"t{number}", **({"content": content[0]} if content else {}), **more}


def asked(gateway, *blocks, model=MODEL):
    """The turns that the child gets after the assistant's two calls; None when the request was refused."""
    calls = [{"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"n": number}} for number in (1, 2)]
    answer = gateway.ask("anthropic", {"x-api-key": "KEY"}, model=model, messages=[
        {"role": "user", "content": "go"}, {"role": "assistant", "content": calls},
        {"role": "user", "content": list(blocks)}])
    if answer.status == 400:
        assert is_error_of("anthropic", answer) and gateway.child.received == []
        return None
    assert answer.status == 200, answer
    turns = json.loads(gateway.child.received[-1].body)["messages"]
    assert [turn["role"] for turn in turns[:2]] == ["user", "assistant"]
    assert [call["id"] for call in turns[1]["tool_calls"]] == ["t1", "t2"]
    return turns[2:]


def answers(turns):
    """The results among the turns, which stand first, one for each call, in the order of the calls."""
    results = [turn for turn in turns if turn["role"] == "tool"]
    assert turns[:2] == results and [turn["tool_call_id"] for turn in results] == ["t1", "t2"]
    assert [turn["role"] for turn in turns[2:]] in ([], ["user"])
    return [turn["content"] for turn in results]


@pytest.mark.parametrize(("content", "expected"), [
    ("15C", "15C"), ([text("a"), text("b")], "a\nb"), ([], ""), ("", ""), (None, ""),
    ([{**IMAGE, "source": {"type": "url", "url": "http://127.0.0.1/x.png"}}], "[image]"),
    ([{"type": "tool_reference", "tool_name": "Read"}], "[tool_reference: {\"tool_name\":\"Read\"}]")])
def test_every_kind_of_result(gateway, content, expected):
    turns = asked(gateway, result(1, content), result(2, "two"))
    assert answers(turns) == [expected, "two"] and len(turns) == 2


SHOWN = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}


def test_a_picture_of_a_result_is_shown_to_a_model_that_sees(gateway):
    turns = asked(gateway, result(1, [text("a"), IMAGE]), result(2, [IMAGE]))
    assert answers(turns) == [[text("a"), SHOWN], [SHOWN]] and len(turns) == 2


def test_and_named_to_one_that_does_not(gateway):
    """Nobody could write the result anew, so it is no reason for a refusal, as a user's picture is."""
    long = text("b" * 70_000)
    turns = asked(gateway, result(1, [text("a"), IMAGE, long]), result(2, [IMAGE]), text("Go on."), model=BLIND)
    assert answers(turns) == ["a\n[image]\n" + "b" * 70_000, "[image]"] and turns[2]["content"] == "Go on."
    assert asked(gateway.fresh(), result(1, [IMAGE]), IMAGE, model=BLIND) is None


def test_a_result_without_content(gateway):
    assert answers(asked(gateway, result(1), result(2))) == ["", ""]


def test_an_error_is_visible(gateway):
    assert answers(asked(gateway, result(1, "gone", is_error=True), result(2, "two"))) == ["Error: gone", "two"]


@pytest.mark.parametrize("order", ["after", "before", "between"])
def test_text_beside_results_never_stands_between_call_and_result(gateway, order):
    one, two, words = result(1, "one"), result(2, "two"), text("Go on.")
    blocks = {"after": [one, two, words], "before": [words, one, two], "between": [one, words, two]}[order]
    turns = asked(gateway, *blocks)
    assert answers(turns) == ["one", "two"] and turns[2] == {"role": "user", "content": "Go on."}


def test_results_in_another_order_are_put_in_that_of_the_calls(gateway):
    assert answers(asked(gateway, result(2, "two"), result(1, "one"))) == ["one", "two"]


def test_text_and_images_after_results_keep_their_order(gateway):
    turns = asked(gateway, result(1, "one"), result(2, "two"), text("a"), IMAGE, text("b"))
    assert answers(turns) == ["one", "two"]
    assert [part["type"] for part in turns[2]["content"]] == ["text", "image_url", "text"]
    assert turns[2]["content"][1]["image_url"]["url"] == f"data:image/png;base64,{PNG}"


def test_a_missing_result_has_a_placeholder(gateway):
    assert answers(asked(gateway, result(1, "one"))) == ["one", "[no result was given for this call]"]


@pytest.mark.parametrize("blocks", [[{"type": "tool_result"}], [result(1, "a"), result(1, "b")],
                                    [result(1, [5])], [result(1, 5)], [result(1, {"type": "text"})]])
def test_what_makes_no_sense_is_refused(gateway, blocks):
    assert asked(gateway, *blocks) is None


# -- FC-18 -----------------------------------------------------------------------------------------------


def counts(talk):
    """A child whose prompt is the JSON of what it was asked, with a token for each byte."""
    asked = json.loads(talk.request.body)
    told = {"tokens": list(asked["content"].encode())} if b"/tokenize" in talk.request.head else {
        "prompt": json.dumps(asked)}
    talk.send(json_answer(json.dumps(told).encode()))


def count(gateway, key="KEY", **body):
    return gateway.request("POST", "/v1/messages/count_tokens?beta=true",
                           {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], **body},
                           {"x-api-key": key})


TOOL = {"name": "f", "input_schema": {"type": "object"}}


def test_the_prompt_is_counted_and_nothing_generated(gateway):
    gateway.child.play = counts
    answer = count(gateway, tools=[TOOL], system="Be brief.", stop_sequences=["x"], stream=True, temperature=0.5)
    assert answer.status == 200 and set(answer.json()) == {"input_tokens"}
    assert [one.head.split(b" ")[1] for one in gateway.child.received] == [b"/apply-template", b"/tokenize"]
    template, tokens = (json.loads(one.body) for one in gateway.child.received)
    assert [turn["role"] for turn in template["messages"]] == ["system", "user"]
    assert template["tools"][0]["function"]["name"] == "f"
    assert tokens == {"content": json.dumps(template), "add_special": True, "parse_special": True}
    assert answer.json()["input_tokens"] == len(json.dumps(template))


def test_the_prompt_is_the_one_of_the_call(gateway):
    gateway.child.play = counts
    body = {"tools": [TOOL], "tool_choice": {"type": "any"}, "thinking": {"type": "disabled"},
            "system": [{"type": "text", "text": "a"}]}
    count(gateway, **body)
    gateway.ask("anthropic", {"x-api-key": "KEY"}, **body)
    template, call = (json.loads(gateway.child.received[place].body) for place in (0, 2))
    only_of_the_call = {"stream", "stream_options", "max_tokens"}
    assert template == {field: value for field, value in call.items() if field not in only_of_the_call}


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "g"}])
def test_a_forced_tools_prompt_is_the_one_of_the_call_too(gateway, choice):
    gateway.child.play = counts
    body = {"tools": [TOOL, {**TOOL, "name": "g"}], "tool_choice": choice}
    count(gateway, **body)
    gateway.ask("anthropic", {"x-api-key": "KEY"}, **body)
    template, call = (json.loads(gateway.child.received[place].body) for place in (0, 2))
    assert [template[field] for field in ("messages", "tools", "tool_choice")] == [
        call[field] for field in ("messages", "tools", "tool_choice")]


SEES = [{"role": "user", "content": [text("a"), IMAGE]}]


def test_the_engine_counts_pictures(gateway):
    gateway.child.play = lambda talk: talk.send(json_answer(b'{"input_tokens":77,"object":"response.input_tokens"}'))
    assert count(gateway, messages=SEES).json() == {"input_tokens": 77}
    [asked] = gateway.child.received
    assert asked.head.split(b" ")[1] == b"/v1/chat/completions/input_tokens"
    assert json.loads(asked.body)["messages"][0]["content"] == [text("a"), SHOWN]


@pytest.mark.parametrize("told", [json_answer(b'{"error":{"message":"File Not Found","code":404}}', "404 Not Found"),
                                  json_answer(b'{"tokens":5}')])
def test_one_that_does_not_counts_the_text(gateway, told):
    gateway.child.play = lambda talk: talk.send(told) if b"input_tokens" in talk.request.head else counts(talk)
    answer = count(gateway, messages=SEES)
    assert answer.status == 200 and answer.json()["input_tokens"] > 10
    assert [one.head.split(b" ")[1] for one in gateway.child.received][1:] == [b"/apply-template", b"/tokenize"]


def test_refusals(gateway):
    unknown, nobody, empty = count(gateway, model="nobody"), count(gateway, key="wrong"), count(gateway, messages=[])
    assert [unknown.status, nobody.status, empty.status] == [404, 401, 400]
    for answer in (unknown, nobody, empty):
        assert is_error_of("anthropic", answer)


@pytest.mark.parametrize("told", [{}, {"prompt": 5}, {"prompt": "a", "tokens": None}])
def test_a_child_that_cannot_count_is_a_502(gateway, told):
    gateway.child.play = lambda talk: talk.send(json_answer(json.dumps(told).encode()))
    answer = count(gateway)
    assert answer.status == 502 and is_error_of("anthropic", answer)


def test_what_the_child_refuses_is_told(gateway):
    told = b'{"error":{"code":400,"message":"no images here","type":"invalid_request_error"}}'
    gateway.child.play = lambda talk: talk.send(json_answer(told, "400 Bad Request"))
    answer = count(gateway)
    assert answer.status == 400 and is_error_of("anthropic", answer) == "no images here"
