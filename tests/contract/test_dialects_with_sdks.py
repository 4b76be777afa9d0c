"""The official clients read what the dialects write: answers of the golden conversations, and errors."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from blazar.errors import ChildFailed, ModelForbidden, ModelNotFound, RequestRefused, Unauthenticated
from tests.support.wire import buffered, chunk, dialects, sse, streamed

WIRE = Path(__file__).parent.parent / "data" / "wire"


@pytest.fixture
def serve():
    """A function that starts a server with one answer, (status, content type, body), and gives its URL."""
    servers = []

    def start(status, content_type, body):
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(status)
                self.send_header("content-type", content_type)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def opened(case, **fields):
    dialect, operation, _ = case.split("-", 2)
    asked = json.loads((WIRE / f"{case}.request.json").read_bytes()) | fields
    return dialects()[dialect].parse(operation, json.dumps(asked).encode(), {}, "r1"), asked


def cases(prefix):
    return sorted(path.name.removesuffix(".sse") for path in WIRE.glob(f"{prefix}*.sse"))


@pytest.mark.parametrize("case", cases("anthropic-messages"))
def test_anthropic(case, serve):
    anthropic = pytest.importorskip("anthropic")
    exchange, asked = opened(case)
    child = (WIRE / f"{case}.sse").read_bytes()
    needed = {field: asked.pop(field) for field in ("model", "max_tokens", "messages")} | {"extra_body": asked}
    url = serve(200, "text/event-stream", streamed(exchange, child))
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0).messages.stream(**needed) as stream:
        final = stream.get_final_message()
    whole = serve(200, "application/json", buffered(exchange, child))
    answer = anthropic.Anthropic(base_url=whole, api_key="k", max_retries=0).messages.create(**needed)
    assert [block.to_dict() for block in final.content] == [block.to_dict() for block in answer.content]
    assert (final.stop_reason, final.stop_sequence) == (answer.stop_reason, answer.stop_sequence)
    assert (final.usage.input_tokens, final.usage.output_tokens) == (
        answer.usage.input_tokens, answer.usage.output_tokens) != (0, 0)


def test_anthropic_error_in_a_stream(serve):
    anthropic = pytest.importorskip("anthropic")
    exchange, asked = opened("anthropic-messages-turn")
    asked.pop("stream")
    translator = exchange.dialect.translator(exchange)
    url = serve(200, "text/event-stream", translator.feed(chunk("a")) + translator.fail(ChildFailed("the engine died")))
    with pytest.raises(anthropic.APIStatusError, match="the engine died"):
        with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0).messages.stream(**asked) as stream:
            stream.get_final_message()


@pytest.mark.parametrize("case", cases("responses-create"))
def test_openai_responses(case, serve):
    openai = pytest.importorskip("openai")
    exchange, asked = opened(case)
    child = (WIRE / f"{case}.sse").read_bytes()
    asked.pop("stream", None)
    url = serve(200, "text/event-stream", streamed(exchange, child))
    with openai.OpenAI(base_url=url, api_key="k", max_retries=0).responses.stream(**asked) as stream:
        *events, last = stream
    url = serve(200, "application/json", buffered(opened(case)[0], child))
    whole = openai.OpenAI(base_url=url, api_key="k", max_retries=0).responses.create(**asked)
    final = last.response.to_dict()
    assert [item.get("content", item.get("arguments")) for item in whole.to_dict()["output"]] == [
        item.get("content", item.get("arguments")) for item in without(final["output"], "parsed")]
    assert last.response.usage == whole.usage and last.response.status == whole.status
    texts = [event for event in events if event.type == "response.output_text.delta"]
    assert "".join(event.delta for event in texts) == whole.output_text
    snapshots = [event.snapshot for event in texts]
    assert not snapshots or snapshots[-1] == whole.output[-1].content[0].text


def without(value, name):
    """The value without what the client adds under that name."""
    if isinstance(value, list):
        return [without(inner, name) for inner in value]
    if isinstance(value, dict):
        return {key: without(inner, name) for key, inner in value.items() if key != name}
    return value


def test_openai_responses_that_fail(serve):
    openai = pytest.importorskip("openai")
    exchange, asked = opened("responses-create-turn")
    asked.pop("stream")
    translator = exchange.dialect.translator(exchange)
    url = serve(200, "text/event-stream", translator.feed(chunk("a")) + translator.fail(ChildFailed("the engine died")))
    with openai.OpenAI(base_url=url, api_key="k", max_retries=0).responses.stream(**asked) as stream:
        *_, last = stream
    assert last.type == "response.failed" and last.response.error.message == "the engine died"
    early = serve(200, "text/event-stream", exchange.dialect.stream_error(ChildFailed("before a word")))
    with pytest.raises(openai.APIError, match="before a word"):
        list(openai.OpenAI(base_url=early, api_key="k", max_retries=0).responses.create(**asked, stream=True))


ERRORS = [(RequestRefused("no"), "BadRequestError"), (Unauthenticated(), "AuthenticationError"),
          (ModelForbidden("no"), "PermissionDeniedError"), (ModelNotFound("no"), "NotFoundError"),
          (ChildFailed("no"), "InternalServerError")]


@pytest.mark.parametrize(("error", "name"), ERRORS)
def test_errors_are_the_clients_own(error, name, serve):
    anthropic, openai = pytest.importorskip("anthropic"), pytest.importorskip("openai")
    status, body = dialects()["anthropic"].error(error)
    client = anthropic.Anthropic(base_url=serve(status, "application/json", body), api_key="k", max_retries=0)
    with pytest.raises(getattr(anthropic, name), match=error.message[:20]):
        client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "hi"}])
    status, body = dialects()["openai"].error(error)
    client = openai.OpenAI(base_url=serve(status, "application/json", body), api_key="k", max_retries=0)
    with pytest.raises(getattr(openai, name), match=error.message[:20]) as caught:
        client.chat.completions.create(model="m", messages=[])
    assert caught.value.code == error.slug


def test_openai_error_in_a_stream(serve):
    openai = pytest.importorskip("openai")
    body = sse([chunk("a")], done=False) + dialects()["openai"].stream_error(ChildFailed("died"))
    client = openai.OpenAI(base_url=serve(200, "text/event-stream", body), api_key="k", max_retries=0)
    with pytest.raises(openai.APIError, match="died"):
        list(client.chat.completions.create(model="m", messages=[], stream=True))


@pytest.mark.parametrize("case", cases("ollama-chat"))
def test_ollama_chat(case, serve):
    ollama = pytest.importorskip("ollama")
    exchange, asked = opened(case)
    child = (WIRE / f"{case}.sse").read_bytes()
    url = serve(200, "application/x-ndjson", streamed(exchange, child))
    lines = list(ollama.Client(host=url).chat(model="m", messages=asked["messages"][:1], stream=True))
    url = serve(200, "application/json", buffered(exchange, child))
    whole = ollama.Client(host=url).chat(model="m", messages=asked["messages"][:1])
    assert "".join(line.message.content for line in lines) == whole.message.content
    assert [call for line in lines for call in line.message.tool_calls or []] == (whole.message.tool_calls or [])
    assert lines[-1].done and (lines[-1].eval_count, lines[-1].done_reason) == (whole.eval_count, whole.done_reason)


def test_ollama_errors(serve):
    ollama = pytest.importorskip("ollama")
    exchange, _ = opened("ollama-chat-stream")
    translator = exchange.dialect.translator(exchange)
    url = serve(200, "application/x-ndjson", translator.feed(chunk("a")) + translator.fail(ChildFailed("died")))
    with pytest.raises(ollama.ResponseError, match="died"):
        list(ollama.Client(host=url).chat(model="m", messages=[], stream=True))
    status, body = dialects()["ollama"].error(ModelNotFound("gone"))
    with pytest.raises(ollama.ResponseError, match="gone") as caught:
        ollama.Client(host=serve(status, "application/json", body)).generate(model="m", prompt="hi")
    assert caught.value.status_code == 404
