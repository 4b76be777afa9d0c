"""Every way to use tokens is counted for its key, with the real engine, whether or not the client asked to be told."""

import json
import urllib.request

import pytest

from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until

MODEL, VECTORS = "tiny:f32", "vectors:f32"
SAID = [{"role": "user", "content": "hi there"}]
CHAT = {"model": MODEL, "messages": SAID, "max_tokens": 6}
OLLAMA = {"model": MODEL, "options": {"num_predict": 6}}
WAYS = {
    # name of the key: path, body, where the answer (or the last event that has it) tells its counts
    "chat": ("/v1/chat/completions", CHAT, ("usage", "prompt_tokens", "completion_tokens")),
    "chat-told": ("/v1/chat/completions", {**CHAT, "stream": True, "stream_options": {"include_usage": True}},
                  ("usage", "prompt_tokens", "completion_tokens")),
    "chat-untold": ("/v1/chat/completions", {**CHAT, "stream": True}, None),
    "completions": ("/v1/completions", {"model": MODEL, "prompt": "hi there", "max_tokens": 6, "stream": True}, None),
    "ollama": ("/api/chat", {**OLLAMA, "messages": SAID}, ("", "prompt_eval_count", "eval_count")),
    "generate": ("/api/generate", {**OLLAMA, "prompt": "hi there"}, ("", "prompt_eval_count", "eval_count")),
    "anthropic": ("/v1/messages", {**CHAT, "stream": True}, None),
    "messages": ("/v1/messages", CHAT, ("usage", "input_tokens", "output_tokens", "cache_read_input_tokens")),
    "responses": ("/v1/responses", {"model": MODEL, "input": "hi there", "max_output_tokens": 16},
                  ("usage", "input_tokens", "output_tokens")),
    "embeddings": ("/v1/embeddings", {"model": VECTORS, "input": ["hi", "you"]}, ("usage", "prompt_tokens", "")),
    "embed": ("/api/embed", {"model": VECTORS, "input": ["hi", "you"]}, ("", "prompt_eval_count", "")),
}
SAME_AS = {"chat-untold": "chat-told", "anthropic": "messages"}
"""Ways that ask for the same as another one, and are told nothing, or in another place."""


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("charged"))
    shell.ok("pull", str(tiny_gguf(shell.home / "tiny.gguf", ctx=512)), "--name", MODEL)
    shell.ok("pull", str(tiny_gguf(shell.home / "vectors.gguf", seed=1, pooling=1, ctx=512)), "--name", VECTORS)
    entries = "".join(f'[[keys]]\nname = "{name}"\nkey = "sk-{name}"\ntpm = 9000\n' for name in (*WAYS, "batch"))
    shell.config.write_text(shell.config.read_text() + entries)
    shell.start()
    yield shell
    shell.stop()


def ask(shell, name, path, body):
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    request = urllib.request.Request(shell.url + path, data, {"x-api-key": f"sk-{name}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def told(text, place):
    """The sum of the counts that the answer tells."""
    around, *names = place
    objects = [json.loads(line.removeprefix("data: ")) for line in text.splitlines()
               if line.startswith(("{", "data: {"))]
    value = next(one for one in reversed(objects) if (one.get(around) if around else one.get(names[0])))
    counts = value[around] if around else value
    return sum(counts.get(name) or 0 for name in names if name)


def used(shell):
    """Requests and tokens by key, as `blazar keys usage` shows them."""
    return {row["key"]: (row["requests"], row["tokens"]) for row in json.loads(shell.ok("keys", "usage", "--json"))}


def test_what_is_told_is_what_is_counted(shell):
    expected = {}
    for name, (path, body, place) in WAYS.items():
        text = ask(shell, name, path, body)
        if place is not None:
            expected[name] = told(text, place)
            assert expected[name] > 2, text
    expected |= {name: expected[other] for name, other in SAME_AS.items()}
    counted = until(lambda: (found := used(shell)).keys() >= WAYS.keys() and found, 20)
    assert {name: counted[name] for name in expected} == {name: (1, tokens) for name, tokens in expected.items()}
    assert counted["completions"][0] == 1 and 6 < counted["completions"][1] < 60


def test_each_line_of_a_batch_is_a_request(shell):
    lines = "".join(json.dumps({"custom_id": f"r{number}", "method": "POST", "url": "/v1/chat/completions",
                                "body": CHAT}) + "\n" for number in range(3))
    part = "--x\r\nContent-Disposition: form-data; name="
    form = f'{part}"purpose"\r\n\r\nbatch\r\n{part}"file"; filename="f.jsonl"\r\n\r\n{lines}\r\n--x--\r\n'.encode()
    request = urllib.request.Request(f"{shell.url}/v1/files", form, {
        "x-api-key": "sk-batch", "Content-Type": "multipart/form-data; boundary=x"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        file = json.load(answer)["id"]
    batch = json.loads(ask(shell, "batch", "/v1/batches", {"input_file_id": file, "endpoint": "/v1/chat/completions",
                                                           "completion_window": "24h"}))
    until(lambda: json.loads(ask(shell, "batch", f"/v1/batches/{batch['id']}", None))["status"] == "completed", 60)
    each = told(ask(shell, "chat", "/v1/chat/completions", CHAT), ("usage", "prompt_tokens", "completion_tokens"))
    until(lambda: used(shell).get("batch") == (3, 3 * each), 20, "three requests")
