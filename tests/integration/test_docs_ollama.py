"""docs/ollama.md: what it says of each field is tried, so a field that a translator drops, or takes up, fails here."""

import base64
import json
import re
from pathlib import Path

import pytest

from blazar.config.registry import SETTINGS
from blazar.config.tables.overrides import FIELDS
from blazar.errors import RequestRefused
from tests.support.fake_supervisor import FakeSupervisor
from tests.support.gateway_under_test import GatewayUnderTest
from tests.support.needs import need_javascript_clients
from tests.support.wire import dialects

PAGE = (Path(__file__).parent.parent.parent / "docs" / "ollama.md").read_text()
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\nrest").decode()
USER, CALL = {"role": "user", "content": "hi"}, {"function": {"name": "f", "arguments": {"a": 1}}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
DIGEST = "sha256:" + "a" * 64

COMMON = {"stream": False, "keep_alive": "7m", "options": {"seed": 3}, "think": True, "format": "json",
          "logprobs": True, "top_logprobs": 2, "truncate": True, "shift": True, "model": "other"}
GENERATE = {**COMMON, "prompt": "else", "suffix": "end", "system": "s", "images": [PNG], "context": [1, 2], "raw": True,
            "template": "{{ .Prompt }}", "width": 8, "height": 8, "steps": 2}
PARSED = {
    # heading of the page: (operation, the plainest request, each field with a value that asks for something)
    "`POST /api/chat`": ("chat", {"model": "m", "messages": [USER]}, {
        **COMMON, "messages": [USER, USER], "tools": [TOOL]}),
    "`POST /api/generate`": ("generate", {"model": "m", "prompt": "hi"}, GENERATE),
    "`POST /api/embed`": ("embed", {"model": "m", "input": "a"}, {
        "model": "other", "input": ["a", "b"], "truncate": False, "keep_alive": 7, "options": {"seed": 1},
        "dimensions": 3}),
    "`POST /api/embeddings`": ("embeddings", {"model": "m", "prompt": "a"}, {
        "model": "other", "prompt": "b", "keep_alive": 7, "options": {"seed": 1}}),
}
OPTIONS = {"stop": ["x"], "numa": True, "low_vram": True, "f16_kv": True, "logits_all": True, "vocab_only": True,
           "use_mmap": False, "use_mlock": True, "embedding_only": True, "penalize_newline": True}
"""Values of those options that take no 7."""
MESSAGE = {"role": ("user", "system"), "content": ("a", "b"), "thinking": (None, "t"), "images": (None, [PNG]),
           "tool_calls": (None, [CALL]), "tool_name": ("f", "g"), "tool_call_id": ("1", "2")}
MANAGED = {
    # heading of the page: (method, path, the plainest request, each field with a value that asks for something)
    "`POST /api/show`": ("POST", "/api/show", {"model": "solo"}, {
        "model": "nobody", "name": "nobody", "verbose": True, "system": "s", "template": "t", "options": {"seed": 1}}),
    "`POST /api/pull`": ("POST", "/api/pull", {"model": "qwen3-8b"}, {
        "model": "smollm2-135m", "name": "smollm2-135m", "stream": False, "insecure": True}),
    "`POST /api/push`": ("POST", "/api/push", {}, {"model": "solo", "name": "solo"}),
    "`POST /api/create`": ("POST", "/api/create", {"model": "mine", "from": "solo"}, {
        "model": "other", "name": "other", "from": "nobody", "files": {"a.gguf": DIGEST}, "adapters": {"a": DIGEST},
        "template": "t", "license": "MIT", "system": "s", "parameters": {"seed": 1}, "messages": [USER],
        "modelfile": "FROM solo\nSYSTEM s", "stream": False, "quantize": "q4_0", "quantization": "q4_0",
        "draft_quantize": "q4_0", "remote_host": "h", "draft_files": {"a": DIGEST}, "renderer": "r", "parser": "p",
        "requires": "1", "info": {"a": 1}, "capabilities": ["tools"]}),
    "`POST /api/copy`": ("POST", "/api/copy", {"source": "solo", "destination": "mine"}, {
        "source": "nobody", "destination": "other", "alias": True}),
    "`DELETE /api/delete`": ("DELETE", "/api/delete", {}, {"model": "nobody", "name": "nobody"}),
}
WARNED = ("renderer", "parser", "requires", "info", "capabilities")


def table(heading):
    """The rows of the first table under a heading, or after another line: field by what becomes of it."""
    lines = PAGE.partition(f"{heading}\n")[2].lstrip().splitlines()
    rows = []
    for line in lines[2:] if lines[0].startswith("| field") else []:
        if not line.startswith("|"):
            break
        field, fate, _ = (cell.strip() for cell in line.strip("|").split("|"))
        rows.append((field.strip("`"), fate))
    assert rows and len(dict(rows)) == len(rows), heading
    return rows


def listed(client):
    """The rows of the page for one client: method by what is said of it."""
    return dict(re.findall(rf"^\| {client} \| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE))


def cases(headings):
    return [pytest.param(heading, field, fate, id=f"{heading} {field}".replace("`", ""))
            for heading in headings for field, fate in table(f"## {heading}")]


def outcome(operation, payload):
    """All that a request asks, or "refused"."""
    try:
        exchange = dialects()["ollama"].parse(operation, json.dumps(payload).encode(), {}, "r1")
    except RequestRefused:
        return "refused"
    upstream = {key: value for key, value in json.loads(exchange.upstream_body or b"{}").items() if key != "model"}
    return (upstream, exchange.upstream_path, exchange.asked, exchange.stream, exchange.keep_alive, exchange.num_ctx,
            exchange.context, exchange.inputs, exchange.stops)


def check(fate, before, after):
    expected = {"refused": after == "refused", "ignored": after == before,
                "passed": after not in (before, "refused"), "translated": after not in (before, "refused")}
    assert expected[fate], (fate, before, after)


@pytest.mark.parametrize("heading", [*PARSED, *MANAGED])
def test_every_field_of_the_page_has_a_value_here(heading):
    known = (PARSED.get(heading) or MANAGED[heading])[-1]
    assert set(dict(table(f"## {heading}"))) == set(known)


@pytest.mark.parametrize(("heading", "field", "fate"), cases(PARSED))
def test_fields_of_requests_that_ask_a_model(heading, field, fate):
    operation, plain, values = PARSED[heading]
    check(fate, outcome(operation, plain), outcome(operation, {**plain, field: values[field]}))


@pytest.mark.parametrize(("field", "fate"), table("## `options`"))
def test_options(field, fate):
    plain = {"model": "m", "messages": [USER]}
    check(fate, outcome("chat", plain), outcome("chat", {**plain, "options": {field: OPTIONS.get(field, 7)}}))


@pytest.mark.parametrize(("field", "fate"), table("Fields of a message:\n"))
def test_fields_of_a_message(field, fate):
    def asked(value):
        if field in ("tool_name", "tool_call_id"):
            calls = [{"id": str(number), "function": {"name": name, "arguments": {}}}
                     for number, name in enumerate("fg", 1)]
            turns = [{"role": "assistant", "tool_calls": calls}, {"role": "tool", "content": "r", field: value}]
        else:
            role = "assistant" if field in ("thinking", "tool_calls") else "user"
            turns = [{"role": role, "content": "a", field: value}]
        return outcome("chat", {"model": "m", "messages": turns})
    before, after = map(asked, MESSAGE[field])
    check(fate, before, after)


class Supervised(FakeSupervisor):
    def on_job(self, message):
        return {}


class Gateway(GatewayUnderTest):
    supervised = Supervised


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    with Gateway(tmp_path_factory.mktemp("docs"), installed=("solo:q4_0", "nobody:q4_0")) as running:
        running.supervisor.on_describe = lambda message: {"model": {
            **FakeSupervisor.on_describe(running.supervisor, message)["model"],
            "files": [{"role": "model", "digest": "d" * 64, "size": 1, "name": "m"}]}}
        yield running


@pytest.mark.parametrize(("heading", "field", "fate"), cases(MANAGED))
def test_fields_of_requests_about_models(gateway, heading, field, fate):
    method, path, plain, values = MANAGED[heading]
    gateway.supervisor.installed[:] = ["solo:q4_0", "nobody:q4_0"]
    gateway.supervisor.push()

    def told(payload):
        del gateway.supervisor.heard[1:]
        answer = gateway.request(method, path, payload)
        heard = [{key: value for key, value in message.items() if key not in ("id", "job")}
                 for message in gateway.supervisor.heard[1:] if message["kind"] not in ("beat", "report")]
        body = re.sub(rb'(,"warnings":\[[^]]*\])|(\{"status":"warning[^}]*\}\n)', b"", answer.body) \
            if field in WARNED else answer.body
        return ("refused" if answer.status == 400 and plain else (answer.status, body, heard)), answer.body
    if field == "name":
        plain = {key: value for key, value in plain.items() if key != "model"}
    (before, _), (after, body) = told(plain), told({**plain, field: values[field]})
    if path == "/api/push":
        assert fate == "refused" and b"sends no models anywhere" in body
    else:
        check(fate, before, after)
    if field in WARNED:
        assert f"`{field}` has no effect".encode() in body


def test_clients_send_no_other_fields():
    types = pytest.importorskip("ollama._types")
    known = {"`POST /api/chat`": types.ChatRequest, "`POST /api/generate`": types.GenerateRequest,
             "`POST /api/embed`": types.EmbedRequest, "`POST /api/embeddings`": types.EmbeddingsRequest,
             "`POST /api/pull`": types.PullRequest, "`POST /api/push`": types.PushRequest,
             "`POST /api/create`": types.CreateRequest, "`POST /api/copy`": types.CopyRequest,
             "`POST /api/show`": types.ShowRequest, "`DELETE /api/delete`": types.DeleteRequest,
             "`options`": types.Options, "Message": types.Message}
    for heading, request in known.items():
        rows = dict(table("Fields of a message:\n" if heading == "Message" else f"## {heading}"))
        missing = {name.rstrip("_") for name in request.model_fields} - set(rows)
        assert missing <= ({"stream", "insecure"} if "push" in heading else set()), heading


@pytest.mark.parametrize(("interface", "heading"), [
    *((f"{name}Request", f"`{method} /api/{name.lower()}`") for name, method in {
        "Generate": "POST", "Chat": "POST", "Embed": "POST", "Embeddings": "POST", "Pull": "POST", "Create": "POST",
        "Copy": "POST", "Show": "POST", "Delete": "DELETE"}.items()), ("Options", "`options`")])
def test_the_javascript_client_sends_no_other_fields(interface, heading):
    declared = (need_javascript_clients() / "ollama" / "dist" / "browser.d.ts").read_text()
    fields = re.search(rf"^interface {interface} {{\n(.*?)^}}", declared, re.MULTILINE | re.DOTALL)[1]
    sent = set(re.findall(r"^    (\w+)\??:", fields, re.MULTILINE))
    assert sent and sent <= set(dict(table(f"## {heading}")))


def test_settings_that_are_named_exist():
    named = re.findall(r"`([a-z_]+)`", " ".join(re.findall(r"\| ignored \|(.*)\|", PAGE.partition("## `options`")[2])))
    fields = {field.name for field in FIELDS} | set(SETTINGS)
    assert {name for name in named if "_" in name or name == "devices"} <= fields
