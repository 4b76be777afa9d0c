"""Structured output in all dialects, through the running gateway: receipts, what is refused, what the sentinel says
(FC-10)."""

import json

import pytest

from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import ASK, MESSAGES, MODEL, GatewayUnderTest, is_error_of
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, events, json_answer
from tests.support.wire import anthropic_blocks, anthropic_events, ndjson, responses_events

SCHEMA = {"type": "object", "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/B"}}},
          "required": ["items"],
          "$defs": {"B": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}}
GOOD, BAD = '{"items":[{"n":1}]}', '{"items":[{"n":"x"}]}'
RECEIPT = "x-blazar-structured-output"
ON = {"X-Blazar-Enforce": "on"}


def form(schema):
    return {"type": "json_schema", "json_schema": {"name": "format", "strict": True, "schema": schema}}


TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
OTHER = {"type": "function", "function": {"name": "g", "parameters": {"type": "object"}}}
FORCED = {"type": "function", "function": {"name": "f"}}
ASKS = {
    # dialect: what asks it for an answer by a schema
    "openai": lambda schema: {"response_format": form(schema)},
    "ollama": lambda schema: {"format": schema},
    "anthropic": lambda schema: {"output_config": {"format": {"type": "json_schema", "schema": schema}}},
    "responses": lambda schema: {"text": {"format": {"type": "json_schema", "name": "format", "schema": schema}}},
}
FORCES = {
    # dialect: what makes it call the tool f
    "openai": {"tools": [OTHER, TOOL], "tool_choice": FORCED},
    "anthropic": {"tools": [{"name": "g", "input_schema": {"type": "object"}}, {"name": "f", "input_schema": SCHEMA}],
                  "tool_choice": {"type": "tool", "name": "f"}},
    "responses": {"tools": [{"type": "function", **OTHER["function"]}, {"type": "function", **TOOL["function"]}],
                  "tool_choice": {"type": "function", "name": "f"}},
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("structured"), {"audit_log": True}) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


def says(gateway, *pieces, finish="stop", thinking=""):
    """The child writes these pieces, streamed or not, as it is asked."""
    thoughts = [delta(reasoning_content=thinking)] if thinking else []

    def play(conversation):
        if json.loads(conversation.request.body).get("stream"):
            conversation.send(STREAM_HEAD + chunked(*events(
                [delta("", role="assistant"), *thoughts, *map(delta, pieces), delta(finish=finish)])))
        else:
            message = {"role": "assistant", "content": "".join(pieces),
                       **({"reasoning_content": thinking} if thinking else {})}
            conversation.send(json_answer(json.dumps(
                {"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": finish}]}).encode()))

    gateway.child.play = play


def asked(gateway):
    return json.loads(gateway.child.received[-1].body)


def text_of(dialect, answer, stream):
    if dialect == "ollama":
        return "".join(line["message"]["content"] for line in (ndjson(answer.body) if stream else [answer.json()]))
    if dialect == "anthropic":
        blocks = anthropic_blocks(anthropic_events(answer.body)) if stream else answer.json()["content"]
        return "".join(block["text"] for block in blocks if block["type"] == "text")
    if dialect == "responses":
        whole = responses_events(answer.body)[-1]["response"] if stream else answer.json()
        said = [item for item in whole["output"] if item["type"] == "message"]
        return "".join(part["text"] for item in said for part in item["content"])
    if stream:
        values = [json.loads(line[6:]) for line in answer.body.decode().split("\n\n") if line[6:7] == "{"]
        return "".join(value["choices"][0]["delta"].get("content") or "" for value in values)
    return answer.json()["choices"][0]["message"]["content"]


def verdicts(gateway, dialect, verdict):
    text = gateway.request("GET", "/metrics").body.decode()
    head = f'blazar_structured_answers_total{{dialect="{dialect}",model="{MODEL}",verdict="{verdict}"}} '
    return sum(int(line.removeprefix(head)) for line in text.splitlines() if line.startswith(head))


def audited(gateway):
    return [json.loads(line) for line in gateway.supervisor.paths.audit_log.read_text().splitlines()]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", ASKS)
def test_the_schema_reaches_the_child_and_the_receipt_its_client(gateway, dialect, stream):
    says(gateway, GOOD[:7], GOOD[7:], thinking="Hm, {")
    answer = gateway.ask(dialect, stream=stream, **ASKS[dialect](SCHEMA))
    assert (answer.status, answer.headers[RECEIPT]) == (200, "json_schema")
    assert asked(gateway)["response_format"]["json_schema"]["schema"] == SCHEMA
    assert text_of(dialect, answer, stream) == GOOD
    plain = gateway.ask(dialect, stream=stream)
    assert plain.status == 200 and RECEIPT not in plain.headers


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", ASKS)
def test_a_violation_is_observed(gateway, dialect, stream):
    before = verdicts(gateway, dialect, "violated"), verdicts(gateway, dialect, "kept")
    says(gateway, BAD)
    answer = gateway.ask(dialect, stream=stream, **ASKS[dialect](SCHEMA))
    assert answer.status == 200 and text_of(dialect, answer, stream) == BAD
    says(gateway, GOOD)
    gateway.ask(dialect, stream=stream, **ASKS[dialect](SCHEMA))
    gateway.ask(dialect, stream=stream)
    assert verdicts(gateway, dialect, "violated") == before[0] + 1
    assert verdicts(gateway, dialect, "kept") == before[1] + 1
    eventually(lambda: [line["structure"] for line in audited(gateway)][-3:] == ["violated", "kept", None])


@pytest.mark.parametrize("dialect", ASKS)
def test_a_violation_is_refused_where_that_is_wanted(gateway, dialect):
    says(gateway, BAD)
    answer = gateway.ask(dialect, ON, stream=False, **ASKS[dialect](SCHEMA))
    message = is_error_of("openai" if dialect == "responses" else dialect, answer)
    assert answer.status == 422 and "items[0].n" in message and "'x' is not of type 'integer'" in message
    assert RECEIPT not in answer.headers
    says(gateway, GOOD)
    answer = gateway.ask(dialect, ON, stream=False, **ASKS[dialect](SCHEMA))
    assert (answer.status, answer.headers[RECEIPT], text_of(dialect, answer, False)) == (200, "json_schema", GOOD)
    says(gateway, GOOD[:9], finish="length")
    assert "limit of tokens" in gateway.ask(dialect, ON, stream=False, **ASKS[dialect](SCHEMA)).body.decode()
    streamed = gateway.ask(dialect, ON, stream=True, **ASKS[dialect](SCHEMA))
    assert streamed.status == 400 and "stream" in streamed.body.decode()
    assert gateway.ask(dialect, {"X-Blazar-Enforce": "maybe"}, stream=False, **ASKS[dialect](SCHEMA)).status == 400


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", FORCES)
def test_a_forced_tool_is_called(gateway, dialect, stream):
    says(gateway, GOOD[:7], GOOD[7:], thinking="Which?")
    answer = gateway.ask(dialect, stream=stream, **FORCES[dialect])
    assert (answer.status, answer.headers[RECEIPT]) == (200, "json_schema")
    sent = asked(gateway)
    assert sent["response_format"]["json_schema"] == {"name": "f", "strict": True, "schema": SCHEMA}
    assert (sent["tool_choice"], sent["tools"]) == ("none", [TOOL]), "no tool that must not be called is shown"
    name, arguments, reason = called(dialect, answer, stream)
    assert (name, json.loads(arguments)) == ("f", json.loads(GOOD))
    assert reason == {"openai": "tool_calls", "anthropic": "tool_use", "responses": "completed"}[dialect]
    assert text_of(dialect, answer, stream) in ("", None)
    says(gateway, BAD)
    if not stream:
        answer = gateway.ask(dialect, ON, **FORCES[dialect])
        assert answer.status == 422 and "items[0].n" in answer.body.decode()


def called(dialect, answer, stream):
    """Name and arguments of the only call, and why the answer ended."""
    if dialect == "anthropic":
        told = anthropic_events(answer.body) if stream else None
        blocks = anthropic_blocks(told) if told else answer.json()["content"]
        [block] = [block for block in blocks if block["type"] == "tool_use"]
        return block["name"], json.dumps(block["input"]), told[-2]["delta"]["stop_reason"] if told else \
            answer.json()["stop_reason"]
    if dialect == "responses":
        whole = responses_events(answer.body)[-1]["response"] if stream else answer.json()
        [item] = [item for item in whole["output"] if item["type"] == "function_call"]
        return item["name"], item["arguments"], whole["status"]
    if not stream:
        [choice] = answer.json()["choices"]
        [call] = choice["message"]["tool_calls"]
        return call["function"]["name"], call["function"]["arguments"], choice["finish_reason"]
    assert answer.body.endswith(b"data: [DONE]\n\n")
    choices = [json.loads(line[6:])["choices"][0] for line in answer.body.decode().split("\n\n") if line[6:7] == "{"]
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls", ())]
    assert {call["index"] for call in calls} == {0} and [bool(call.get("id")) for call in calls] == [True, False]
    return (calls[0]["function"]["name"], "".join(call["function"]["arguments"] for call in calls),
            choices[-1]["finish_reason"])


ANY = {dialect: {**FORCES[dialect], "tool_choice": {"type": "any"} if dialect == "anthropic" else "required"}
       for dialect in FORCES}
"""The same, with a call of any of the two tools."""


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", ANY)
def test_a_call_of_any_tool_is_forced(gateway, dialect, stream):
    """The model writes which tool it calls, and with what; it cannot do anything else."""
    says(gateway, ' {"name": "', 'f", "argu', f'ments": {GOOD[:9]}', GOOD[9:], "}\n", thinking="Which?")
    answer = gateway.ask(dialect, stream=stream, **ANY[dialect])
    assert (answer.status, answer.headers[RECEIPT]) == (200, "json_schema"), answer
    sent = asked(gateway)
    assert (sent["tool_choice"], sent["tools"]) == ("none", [OTHER, TOOL])
    form = sent["response_format"]["json_schema"]["schema"]
    assert [one["properties"]["name"]["const"] for one in form["anyOf"]] == ["g", "f"]
    assert form["$defs"]["tool1"]["properties"]["items"]["items"] == {"$ref": "#/$defs/tool1/$defs/B"}
    name, arguments, reason = called(dialect, answer, stream)
    assert (name, json.loads(arguments)) == ("f", json.loads(GOOD))
    assert reason == {"openai": "tool_calls", "anthropic": "tool_use", "responses": "completed"}[dialect]
    assert text_of(dialect, answer, stream) in ("", None)


@pytest.mark.parametrize("dialect", ANY)
def test_a_call_of_any_tool_is_judged(gateway, dialect):
    for written, status, told in (('{"name":"g","arguments":{"x":1}}', 200, ""),
                                  (f'{{"name":"f","arguments":{GOOD}}}', 200, ""),
                                  (f'{{"name":"f","arguments":{BAD}}}', 422, "items[0].n"),
                                  ('{"name":"h","arguments":{}}', 422, "one call of 'g' or 'f'"),
                                  ("Let me see.", 422, "has none")):
        says(gateway, written)
        answer = gateway.ask(dialect, ON, stream=False, **ANY[dialect])
        assert answer.status == status and told in answer.body.decode(), written


@pytest.mark.parametrize("dialect", ANY)
def test_any_of_one_tool_is_that_tool(gateway, dialect):
    says(gateway, GOOD)
    only = {**ANY[dialect], "tools": ANY[dialect]["tools"][1:]}
    answer = gateway.ask(dialect, ON, **only)
    assert asked(gateway)["response_format"]["json_schema"]["schema"] == SCHEMA
    assert called(dialect, answer, False)[0] == "f"
    assert gateway.ask(dialect, **{**only, "tools": []}).status == 400


def test_a_call_that_the_child_makes_itself_stays(gateway):
    made = {"index": 0, "id": "own", "type": "function", "function": {"name": "f", "arguments": GOOD}}
    gateway.child.play = lambda talk: talk.send(STREAM_HEAD + chunked(*events(
        [delta(tool_calls=[made]), delta(finish="tool_calls")])))
    answer = gateway.ask("anthropic", ON, **FORCES["anthropic"])
    assert answer.json()["content"] == [{"type": "tool_use", "id": "own", "name": "f", "input": json.loads(GOOD)}]


REFUSED = {
    # what is asked: what the refusal names
    "unknown reference": ("ollama", {"format": {"$ref": "#/$defs/Nope"}}, "#/$defs/Nope"),
    "remote reference": ("ollama", {"format": {"$ref": "http://127.0.0.1:9/x"}}, "http://127.0.0.1:9/x"),
    "reference to all": ("ollama", {"format": {"$ref": "#"}}, "$defs"),
    "ring": ("openai", {"response_format": form({"$ref": "#/$defs/a", "$defs": {
        "a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}})}, "leads nowhere"),
    "no schema": ("openai", {"response_format": form({"type": "nonsense"})}, "schema.type"),
    "word": ("openai", {"response_format": "json"}, "response_format"),
    "kind": ("openai", {"response_format": {"type": "xml"}}, "xml"),
    "list": ("openai", {"response_format": form([])}, "schema"),
    "schema is missing": ("openai", {"response_format": {"type": "json_schema"}}, "schema"),
    "grammar": ("openai", {"grammar": 5}, "grammar"),
    "both": ("openai", {"grammar": "root ::= \"a\"", "json_schema": {"type": "object"}}, "send one"),
    "large": ("ollama", {"format": {"enum": ["x" * 300_000]}}, "limit"),
    "yaml": ("ollama", {"format": "yaml"}, "yaml"),
    "number": ("ollama", {"format": 7}, "format"),
    "nameless, openai": ("openai", {"tools": [TOOL], "tool_choice": {"type": "function"}}, "tool_choice.function.name"),
    "nameless, anthropic": ("anthropic", {**FORCES["anthropic"], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
    "nameless, responses": ("responses", {**FORCES["responses"], "tool_choice": {"type": "function"}}, "name"),
    "no such tool": ("openai", {"tools": [OTHER], "tool_choice": FORCED}, "tool_choice.function.name"),
    "forced tool's reference": ("anthropic", {"tools": [{"name": "f", "input_schema": {"$ref": "#/$defs/Nope"}}],
                                              "tool_choice": {"type": "tool", "name": "f"}}, "#/$defs/Nope"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_explained(gateway, case):
    dialect, fields, named = REFUSED[case]
    answer = gateway.ask(dialect, **fields)
    assert answer.status == 400 and RECEIPT not in answer.headers
    assert named in is_error_of("openai" if dialect == "responses" else dialect, answer)
    assert gateway.child.received == []


NO_FORM = [("openai", {"response_format": None}), ("openai", {"response_format": {"type": "text"}}),
           ("openai", {"tools": [TOOL], "tool_choice": "auto"}), ("openai", {"grammar": ""}),
           ("ollama", {"format": ""}), ("ollama", {"format": None}),
           ("anthropic", {**FORCES["anthropic"], "tool_choice": {"type": "auto"}}),
           ("responses", {"text": {"format": {"type": "text"}}}), ("responses", {"text": {"verbosity": "low"}})]


@pytest.mark.parametrize(("dialect", "fields"), NO_FORM)
def test_no_form_no_receipt(gateway, dialect, fields):
    answer = gateway.ask(dialect, ON, **fields)
    assert answer.status == 200 and RECEIPT not in answer.headers


def test_other_forms(gateway):
    says(gateway, "{}")
    for dialect, fields, kind in (("openai", {"response_format": {"type": "json_object"}}, "json_object"),
                                  ("ollama", {"format": "json"}, "json_object"),
                                  ("openai", {"grammar": "root ::= \"{}\""}, "gbnf"),
                                  ("openai", {"json_schema": {"type": "object"}}, "json_schema")):
        assert gateway.ask(dialect, ON, stream=False, **fields).headers[RECEIPT] == kind
    says(gateway, "[]")
    answer = gateway.ask("ollama", ON, stream=False, format="json")
    assert answer.status == 422 and "no object" in answer.json()["error"]


def test_completions_are_held_too(gateway):
    choices = [{"index": index, "text": text, "finish_reason": "stop"} for index, text in enumerate((GOOD, BAD))]
    gateway.child.play = lambda talk: talk.send(json_answer(json.dumps({"choices": choices}).encode()))
    body = {"model": MODEL, "prompt": "x", "n": 2, "response_format": form(SCHEMA)}
    answer = gateway.request("POST", "/v1/completions", body)
    assert (answer.status, answer.headers[RECEIPT]) == (200, "json_schema")
    assert asked(gateway)["json_schema"] == SCHEMA, "llama-server passes over response_format there"
    assert gateway.request("POST", "/v1/completions", body, ON).status == 422, "every choice counts"


def test_only_the_tools_that_are_allowed_are_called(gateway):
    says(gateway, GOOD)
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [FORCED]}}
    answer = gateway.ask("openai", tools=[OTHER, TOOL], tool_choice=allowed)
    assert asked(gateway)["tools"] == [TOOL] and called("openai", answer, False)[0] == "f"
    says(gateway, "Hello.")
    allowed["allowed_tools"]["mode"] = "auto"
    assert RECEIPT not in gateway.ask("openai", tools=[OTHER, TOOL], tool_choice=allowed).headers
    assert (asked(gateway)["tools"], asked(gateway)["tool_choice"]) == ([TOOL], "auto")


def test_what_nobody_asked_to_change_passes_as_it_came(gateway):
    body = json.dumps({"model": MODEL, "messages": MESSAGES, "response_format": form(SCHEMA)}, indent=3).encode()
    gateway.request("POST", ASK["openai"][0], body)
    assert gateway.child.received[-1].body == body


def test_the_engines_refusals_are_explained(gateway):
    told = {"error": {"code": 400, "message": "Failed to initialize samplers: failed to parse grammar", "type": "x"}}
    for status, message in (("400 Bad Request", told["error"]["message"]), ("500 Internal Server Error", (
            "got exception: Unexpected empty grammar stack after accepting piece: . (30)"))):
        told["error"] |= {"message": message, "code": int(status[:3])}
        gateway.child.play = lambda talk, status=status: talk.send(json_answer(json.dumps(told).encode(), status))
        for dialect in ASKS:
            answer = gateway.ask(dialect, **ASKS[dialect]({"type": "string", "minLength": 9}))
            assert answer.status == 400 and "schema or grammar" in answer.body.decode()
            assert RECEIPT not in answer.headers
    gateway.child.play = lambda talk: talk.send(json_answer(b'{"error":{"message":"no","code":422}}', "422 No"))
    assert RECEIPT not in gateway.ask("openai", **ASKS["openai"](SCHEMA)).headers


def test_stored_only_when_it_keeps_to_its_form(gateway):
    gateway.supervisor.kept.clear()
    says(gateway, BAD)
    assert gateway.ask("openai", ON, store=True, **ASKS["openai"](SCHEMA)).status == 422
    assert gateway.ask("responses", ON, **ASKS["responses"](SCHEMA)).status == 422
    assert gateway.supervisor.kept == {}
    says(gateway, GOOD)
    for stream in (False, True):
        assert gateway.ask("openai", store=True, stream=stream, **ASKS["openai"](SCHEMA)).status == 200
        [row] = gateway.supervisor.kept.values()
        assert json.loads(row["body"])["choices"][0]["message"]["content"] == GOOD
        gateway.supervisor.kept.clear()
