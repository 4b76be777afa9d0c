"""Every public method of Ollama's own Python client against a running Blazar, by the list in docs/ollama.md.

The JavaScript client is driven in test_npm_clients.py.
"""

import asyncio
import inspect

import pytest

from tests.integration.test_docs_ollama import listed
from tests.servers.registry import Registry
from tests.support.raw_gguf import gguf_bytes
from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf

ollama = pytest.importorskip("ollama")

CHAT, WORDS, REPO = "solo:f32", "words:f32", "Owner/Tiny-GGUF"
ASK = {"model": CHAT, "options": {"temperature": 0, "num_predict": 8, "seed": 1}}
MESSAGES = [{"role": "user", "content": "Write about a quiet library."}]


def public(kind):
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


@pytest.mark.parametrize("kind", [ollama.Client, ollama.AsyncClient])
def test_every_method_has_a_row_and_is_driven(kind):
    assert public(kind) <= set(listed("Python")) and public(ollama.AsyncClient) <= public(ollama.Client)
    assert set(listed("Python")) == set(DRIVEN)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with Registry() as registry:
        registry.add(REPO, {"Tiny-Q8_0.gguf": gguf_bytes({"general.file_type": 7})})
        yield from running(Shell(tmp_path_factory.mktemp("home")), registry.base)


def running(shell, registry):
    shell.env["BLAZAR_REGISTRY_BASE"] = registry
    shell.config.write_text(shell.config.read_text() + "default_ctx = 256\n")
    for seed, name in enumerate((CHAT, WORDS)):
        shell.ok("pull", str(tiny_gguf(shell.home / f"{seed}.gguf", seed=seed, pooling=seed)), "--name", name)
    shell.start()
    yield shell
    shell.stop()


@pytest.fixture(params=["Client", "AsyncClient"])
def call(request, daemon):
    """`call(method, ...)` gives its answer, or the list of its pieces when it streams, whichever client it is."""
    kind = getattr(ollama, request.param)

    async def asked(method, given):
        client = kind(host=daemon.url, timeout=60)
        try:
            answer = getattr(client, method)(**given)
            if inspect.iscoroutine(answer):
                answer = await answer
            if hasattr(answer, "__anext__"):
                return [piece async for piece in answer]
            return list(answer) if inspect.isgenerator(answer) else answer
        finally:
            closed = client.close()
            if inspect.iscoroutine(closed):
                await closed
    return lambda method, **given: asyncio.run(asked(method, given))


def refused(call, method, status, words, **given):
    with pytest.raises(ollama.ResponseError, match=words) as caught:
        call(method, **given)
    assert caught.value.status_code == status


def drive_chat(call, home):
    whole = call("chat", **ASK, messages=MESSAGES, logprobs=True, top_logprobs=2)
    pieces = call("chat", **ASK, messages=MESSAGES, stream=True)
    assert "".join(piece.message.content for piece in pieces) == whole.message.content != ""
    assert pieces[-1].eval_count == whole.eval_count == 8 and whole.done_reason == "length"
    assert whole.total_duration >= whole.prompt_eval_duration + whole.eval_duration > 0
    assert all(len(token.top_logprobs) == 2 and token.logprob <= 0 for token in whole.logprobs)
    assert "".join(token.token for token in whole.logprobs).encode() != b""
    refused(call, "chat", 400, "thinking", **ASK, messages=MESSAGES, think=True)


def drive_generate(call, home):
    first = call("generate", **ASK, prompt="A library")
    pieces = call("generate", **ASK, prompt="A library", stream=True)
    assert "".join(piece.response for piece in pieces) == first.response != ""
    assert pieces[-1].context == first.context and len(first.context) >= first.prompt_eval_count
    again = call("generate", **ASK, prompt="And then?", context=first.context)
    assert again.prompt_eval_count > len(first.context) and again.context[:len(first.context)] == first.context
    raw = call("generate", **ASK, prompt="A library", raw=True)
    assert raw.context is None and raw.response != ""
    refused(call, "generate", 400, "FIM", **ASK, prompt="def f(", suffix="return 1")


def drive_embed(call, home):
    answer = call("embed", model=WORDS, input=["one", "two"])
    assert [len(vector) for vector in answer.embeddings] == [64, 64] and answer.prompt_eval_count > 0


def drive_embeddings(call, home):
    assert len(call("embeddings", model=WORDS, prompt="one").embedding) == 64


def drive_list(call, home):
    assert {CHAT, WORDS} <= {model.model for model in call("list").models}


def drive_ps(call, home):
    call("generate", model=CHAT, keep_alive="9m")
    row = next(row for row in call("ps").models if row.model == CHAT)
    assert row.context_length > 0 and row.size >= row.size_vram >= 0 and row.expires_at.tzinfo is not None


def drive_show(call, home):
    shown = call("show", model=WORDS)
    assert shown.capabilities == ["embedding"] and shown.details.format == "gguf" and shown.modified_at.tzinfo
    assert shown.modelinfo["llama.embedding_length"] == 64


def drive_create(call, home):
    assert call("create", model="mine", from_=CHAT, system="Be brief.", parameters={"seed": 7}).status == "success"
    assert "seed" in call("show", model="mine").parameters
    assert call("create", model="mine", from_=CHAT, stream=True)[-1].status == "success"


def drive_create_blob(call, home):
    digest = call("create_blob", path=home / "0.gguf")
    assert call("create", model="sent", files={"0.gguf": digest}).status == "success"


def drive_copy(call, home):
    assert call("copy", source=CHAT, destination="copied").status == "success"
    assert "copied" in {model.model.partition(":")[0] for model in call("list").models}


def drive_delete(call, home):
    call("copy", source=CHAT, destination="gone")
    assert call("delete", model="gone").status == "success"
    refused(call, "show", 404, "gone", model="gone")


def drive_pull(call, home):
    assert call("pull", model=REPO, stream=True)[-1].status == call("pull", model=REPO).status == "success"
    refused(call, "pull", 404, "shows no model", model="o/none")
    refused(call, "pull", 400, "insecure", model=REPO, insecure=True)


def drive_push(call, home):
    refused(call, "push", 400, "sends no models", model=CHAT)


def drive_systemone(call, home):
    refused(call, "systemone", 400, "systemone", model=CHAT, state="s",
            questions={"q": {"type": "noul", "instructions": "i"}})


def drive_close(call, home):
    call("list")  # which closes its client


def drive_web(method):
    def drive(call, home):
        for kind in (ollama.Client, ollama.AsyncClient):  # whatever host they are given, they ask that one
            assert "https://ollama.com/api/" in inspect.getsource(getattr(kind, method))
    return drive


DRIVEN = {name.removeprefix("drive_"): drive for name, drive in list(globals().items())
          if name.startswith("drive_") and name != "drive_web"}
DRIVEN |= {"web_search": drive_web("web_search"), "web_fetch": drive_web("web_fetch")}


def test_num_ctx_loads_the_model_anew_when_it_must(daemon):
    """The real daemon and engine; the log says why."""
    client = ollama.Client(host=daemon.url, timeout=60)

    def context(num_ctx):
        client.generate(CHAT, "A library", options={"num_predict": 1, "num_ctx": num_ctx})
        return next(row.context_length for row in client.ps().models if row.model == CHAT)
    client.generate(CHAT, keep_alive=0)
    assert [context(tokens) for tokens in (100, 512, 300)] == [256, 512, 512]
    logs = "".join(log.read_text() for log in daemon.home.rglob("daemon.log"))
    assert "a request's num_ctx of 512 is more than its context of 256 tokens" in logs


@pytest.mark.parametrize("method", DRIVEN)
def test_method(call, daemon, method):
    DRIVEN[method](call, daemon.home)
