"""Responses and stored completions at the gateway: kept before they end, cancelled, and only for their own API key."""

import json
import threading

import pytest

from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import MESSAGES, MODEL, GatewayUnderTest, is_error_of, post, read_all, read_until
from tests.support.scripted_child import STREAM_HEAD, chunked, hello_world, json_answer
from tests.support.wire import call, chunk, counts, responses_events, responses_items, sse

KEYS = [{"name": "ann", "key": "sk-ann"}, {"name": "bob", "key": "sk-bob"}]
ANN, BOB = {"Authorization": "Bearer sk-ann"}, {"Authorization": "Bearer sk-bob"}
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("responses"), {"keys": KEYS}) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    shared.supervisor.kept.clear()
    return shared.fresh()


def create(gateway, headers=ANN, **fields):
    return gateway.request("POST", "/v1/responses", {"model": MODEL, "input": "hi", **fields}, headers)


def get(gateway, path, headers=ANN):
    return gateway.request("GET", path, headers=headers)


def streams(*chunks):
    """A child that plays these chunks."""
    return lambda conversation: conversation.send(STREAM_HEAD + chunked(sse(chunks)))


def test_what_is_answered_is_what_is_kept(gateway):
    made = create(gateway, metadata={"topic": "a"}).json()
    assert made["store"] is True and made["output"][0]["content"][0]["text"] == "Hello world"
    assert get(gateway, f"/v1/responses/{made['id']}").json() == made
    last = responses_events(create(gateway, stream=True).body)[-1]
    assert get(gateway, f"/v1/responses/{last['response']['id']}").json() == last["response"]
    assert [json.loads(request.body)["stream"] for request in gateway.child.received] == [True, True]


def test_it_is_kept_before_its_last_event(gateway):
    on_keep, seen = gateway.supervisor.on_keep, []
    try:
        with gateway.connect() as sock:
            def slow(message):
                seen.append(message["verb"])
                assert release.wait(10)
                return on_keep(message)

            release = threading.Event()
            gateway.supervisor.on_keep = slow
            body = json.dumps({"model": MODEL, "input": "hi", "stream": True}).encode()
            sock.sendall(post("/v1/responses", body, "Authorization: Bearer sk-ann"))
            begun = read_until(sock, b"response.output_text.delta")
            eventually(lambda: seen == ["put"])
            sock.setblocking(False)
            with pytest.raises(BlockingIOError):
                while data := sock.recv(65536):
                    begun += data
            assert b"response.completed" not in begun
            sock.settimeout(10)
            release.set()
            read_until(sock, b"response.completed")
    finally:
        gateway.supervisor.on_keep = on_keep


def test_a_conversation_goes_on(gateway):
    first = create(gateway, instructions="Be brief.").json()
    second = create(gateway, input=[{"role": "user", "content": "more"}], previous_response_id=first["id"]).json()
    assert json.loads(gateway.child.received[-1].body)["messages"] == [
        {"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello world"},
        {"role": "user", "content": "more"}]
    listed = get(gateway, f"/v1/responses/{second['id']}/input_items?order=asc").json()
    assert [item["content"][0]["text"] for item in listed["data"]] == ["hi", "Hello world", "more"]
    assert (listed["object"], listed["has_more"]) == ("list", False)
    page = get(gateway, f"/v1/responses/{second['id']}/input_items?limit=1").json()
    assert page["data"] == [listed["data"][2]] and page["has_more"] and page["last_id"] == listed["last_id"]
    gateway.request("DELETE", f"/v1/responses/{first['id']}", headers=ANN)
    assert create(gateway, previous_response_id=second["id"]).status == 200, "each holds its whole conversation"
    gone = create(gateway, previous_response_id=first["id"])
    assert gone.status == 400 and gone.json()["error"]["code"] == "previous-response-not-found"
    assert first["id"] in is_error_of("openai", gone)


def test_tools_go_to_and_fro(gateway):
    tool = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
    gateway.child.play = streams(chunk(tool_calls=[call(0, '{"a":1}', "c1", "weather")]), chunk(reason="tool_calls"))
    first = create(gateway, tools=[tool]).json()
    [asked] = first["output"]
    assert (asked["type"], asked["call_id"], asked["arguments"]) == ("function_call", "c1", '{"a":1}')
    gateway.child.play = hello_world
    result = {"type": "function_call_output", "call_id": "c1", "output": "15C"}
    assert create(gateway, input=[result], previous_response_id=first["id"], tools=[tool]).status == 200
    turns = json.loads(gateway.child.received[-1].body)["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "tool"]
    assert (turns[2]["tool_call_id"], turns[2]["content"]) == ("c1", "15C")


def test_nobody_else_sees_it(gateway):
    made = create(gateway).json()
    path = f"/v1/responses/{made['id']}"
    for method, place in (("GET", path), ("GET", path + "/input_items"), ("DELETE", path), ("POST", path + "/cancel")):
        answer = gateway.request(method, place, headers=BOB)
        assert answer.status == 404 and made["id"] in is_error_of("openai", answer)
    assert create(gateway, BOB, previous_response_id=made["id"]).status == 400
    assert gateway.request("GET", path).status == 401
    assert get(gateway, path).status == 200
    assert all("ann" not in owner and "sk" not in owner for _, owner, _ in gateway.supervisor.kept)


def test_delete(gateway):
    path = f"/v1/responses/{(made := create(gateway).json())['id']}"
    deleted = gateway.request("DELETE", path, headers=ANN).json()
    assert deleted == {"id": made["id"], "object": "response", "deleted": True}
    assert get(gateway, path).status == gateway.request("DELETE", path, headers=ANN).status == 404


def test_store_false_keeps_nothing(gateway):
    made = create(gateway, store=False).json()
    assert made["store"] is False and gateway.supervisor.kept == {}
    assert get(gateway, f"/v1/responses/{made['id']}").status == 404


def test_an_answer_that_cannot_be_kept_is_given_and_says_so(gateway):
    on_keep = gateway.supervisor.on_keep
    try:
        gateway.supervisor.on_keep = lambda message: (_ for _ in ()).throw(full())
        assert create(gateway).json()["store"] is False
        assert responses_events(create(gateway, stream=True).body)[-1]["response"]["store"] is False
        assert chat(gateway, store=True).status == 200
    finally:
        gateway.supervisor.on_keep = on_keep


def full():
    from blazar.errors import DatabaseUnusable
    return DatabaseUnusable(path="blazar.db", reason="the disk is full", remedy="free some space")


def test_the_receipt_of_structured_output(gateway):
    schema = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    for form, told in (({"type": "json_object"}, "json_object"), (schema, "json_schema"), ({"type": "text"}, None)):
        for stream in (False, True):
            answer = create(gateway, text={"format": form}, stream=stream)
            assert answer.headers.get("x-blazar-structured-output") == told


@pytest.mark.parametrize("knob", ["best_of", "mcp"])
def test_knobs_that_are_not_active_are_refused(gateway, knob):
    assert create(gateway, **{knob: 2}).status == 400 and gateway.child.received == []


def test_a_child_that_breaks_off_ends_in_a_failed_response_which_is_kept(gateway):
    def breaks(conversation):
        conversation.send(STREAM_HEAD + chunked(sse([chunk("Hel")], done=False), last=False))
        conversation.close()

    gateway.child.play = breaks
    events = responses_events(create(gateway, stream=True).body)
    response = events[-1]["response"]
    assert events[-1]["type"] == "response.failed" and response["error"]["code"] == "server_error"
    assert response["output"][0]["content"][0]["text"] == "Hel"
    assert get(gateway, f"/v1/responses/{response['id']}").json() == response
    assert create(gateway).status == 502


def begins_and_waits(gateway):
    """Have the child begin a stream that it does not end; set once the gateway has closed it."""
    closed = threading.Event()

    def slow(conversation):
        conversation.send(STREAM_HEAD + chunked(sse([chunk("Hel")], done=False), last=False))
        if conversation.client_closes(10):
            closed.set()

    gateway.child.play = slow
    return closed


def test_cancel(gateway):
    closed = begins_and_waits(gateway)
    with gateway.connect() as sock:
        body = json.dumps({"model": MODEL, "input": "hi", "stream": True}).encode()
        sock.sendall(post("/v1/responses", body, "Authorization: Bearer sk-ann"))
        begun = read_until(sock, b'"delta":"Hel"')
        id = begun.partition(b'"id":"')[2].partition(b'"')[0].decode()
        assert gateway.request("POST", f"/v1/responses/{id}/cancel", headers=BOB).status == 404
        cancelled = gateway.request("POST", f"/v1/responses/{id}/cancel", headers=ANN)
        assert cancelled.status == 200 and cancelled.json()["status"] == "cancelled"
        assert b'"status":"cancelled"' in read_until(sock, b"response.failed") + read_all(sock)
    assert closed.wait(10), "the child is told"
    assert get(gateway, f"/v1/responses/{id}").json() == cancelled.json()
    again = gateway.request("POST", f"/v1/responses/{id}/cancel", headers=ANN)
    assert again.status == 400 and "has ended (cancelled)" in is_error_of("openai", again)


def test_a_client_that_leaves_ends_the_childs_work(gateway):
    closed = begins_and_waits(gateway)
    with gateway.connect() as sock:
        body = json.dumps({"model": MODEL, "input": "hi", "stream": False}).encode()
        sock.sendall(post("/v1/responses", body, "Authorization: Bearer sk-ann"))
        eventually(lambda: gateway.child.received)
    assert closed.wait(10) and gateway.supervisor.kept == {}


def test_input_tokens(gateway):
    def counting(conversation):
        prompt = b"/apply-template" in conversation.request.head
        conversation.send(json_answer(b'{"prompt":"p"}' if prompt else b'{"tokens":[1,2,3]}'))

    gateway.child.play = counting
    answer = gateway.request("POST", "/v1/responses/input_tokens", {"model": MODEL, "input": "hi"}, ANN)
    assert answer.json() == {"object": "response.input_tokens", "input_tokens": 3}


# -- stored chat completions -----------------------------------------------------------------------------


def chat(gateway, headers=ANN, **fields):
    return gateway.request("POST", CHAT, {"model": MODEL, "messages": MESSAGES, **fields}, headers)


ANSWER = json.dumps({"id": "chatcmpl-7", "object": "chat.completion", "created": 1, "model": "m", "odd": 1.50,
                     "choices": [{"index": 0, "finish_reason": "stop",
                                  "message": {"role": "assistant", "content": "Hello"}}]}).encode()


def named(*chunks):
    return [{"id": "chatcmpl-8", "created": 1, "model": "m", **one} for one in chunks]


def test_a_stored_completion_passes_unchanged(gateway):
    gateway.child.play = lambda conversation: conversation.send(json_answer(ANSWER))
    plain, stored = chat(gateway), chat(gateway, store=True, metadata={"topic": "a"})
    assert stored.body == plain.body == ANSWER
    assert get(gateway, f"{CHAT}/chatcmpl-7").json() == {**json.loads(ANSWER), "metadata": {"topic": "a"}}
    assert len(gateway.supervisor.kept) == 1
    assert b'"store": true' in gateway.child.received[-1].body, "the request too"


def test_and_a_streamed_one(gateway):
    data = sse(named(chunk("Hel"), chunk("lo"), chunk(reason="stop"), counts()))
    wire = b"".join(chunked(data[start:start + 40], last=False) for start in range(0, len(data), 40)) + b"0\r\n\r\n"
    gateway.child.play = lambda conversation: conversation.send(STREAM_HEAD + wire)
    body = json.dumps({"model": MODEL, "messages": MESSAGES, "stream": True, "store": True}).encode()
    raw = gateway.raw(post(CHAT, body, "Authorization: Bearer sk-ann", "Connection: close"))
    assert raw.partition(b"\r\n\r\n")[2] == wire
    found = get(gateway, f"{CHAT}/chatcmpl-8").json()
    assert found["choices"][0]["message"]["content"] == "Hello" and found["usage"]["completion_tokens"] == 3


def test_its_messages(gateway):
    gateway.child.play = lambda conversation: conversation.send(json_answer(ANSWER))
    chat(gateway, store=True)
    listed = get(gateway, f"{CHAT}/chatcmpl-7/messages").json()
    assert listed["data"] == [{**MESSAGES[0], "id": "chatcmpl-7-0", "content_parts": None}]
    gone = gateway.request("DELETE", f"{CHAT}/chatcmpl-7", headers=ANN)
    assert gone.json() == {"id": "chatcmpl-7", "object": "chat.completion.deleted", "deleted": True}
    assert get(gateway, f"{CHAT}/chatcmpl-7/messages").status == 404


def test_no_other_key_sees_it(gateway):
    gateway.child.play = lambda conversation: conversation.send(json_answer(ANSWER))
    chat(gateway, store=True)
    for method, path, body in (("GET", "", None), ("DELETE", "", None), ("GET", "/messages", None),
                               ("POST", "", {"metadata": {"a": "b"}})):
        assert gateway.request(method, f"{CHAT}/chatcmpl-7{path}", body, BOB).status == 404
    assert get(gateway, f"{CHAT}/chatcmpl-7").status == 200


@pytest.mark.parametrize("body", [b'{"error":{"message":"no"}}', b"[]", b"not json", b'{"id":"x"}'])
def test_what_is_no_completion_passes_and_is_not_kept(gateway, body):
    gateway.child.play = lambda conversation: conversation.send(json_answer(body))
    assert chat(gateway, store=True).body == body and gateway.supervisor.kept == {}
    gateway.child.play = lambda conversation: conversation.send(json_answer(ANSWER, "400 Bad Request"))
    assert chat(gateway, store=True).body == ANSWER and gateway.supervisor.kept == {}


def test_a_stream_that_breaks_off_is_not_kept(gateway):
    def breaks(conversation):
        conversation.send(STREAM_HEAD + chunked(sse(named(chunk("Hel")), done=False), last=False))
        conversation.close()

    gateway.child.play = breaks
    assert b'"error"' in chat(gateway, store=True, stream=True).body and gateway.supervisor.kept == {}


@pytest.mark.parametrize("fields", [{"store": "yes"}, {"store": True, "metadata": {"a": 1}}, {"store": 1}])
def test_bad_fields_are_refused(gateway, fields):
    assert chat(gateway, **fields).status == 400 and gateway.child.received == []
    assert gateway.request("POST", f"{CHAT}/x", {}, ANN).status == 400


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "order=up", "&".join(f"a{n}=" for n in range(99))])
def test_bad_queries_are_refused(gateway, query):
    made = create(gateway).json()
    assert get(gateway, f"/v1/responses/{made['id']}/input_items?{query}").status == 400
    assert get(gateway, f"{CHAT}?{query}").status == 400


def test_a_request_too_large_to_be_stored(gateway):
    large = "x" * (9 << 20)
    for answer in (create(gateway, input=large, store=True), chat(gateway, store=True, user=large)):
        assert answer.status == 400 and '"store": false' in is_error_of("openai", answer)
    assert create(gateway, input=large).json()["store"] is False
    assert responses_items(responses_events(create(gateway, stream=True).body))
