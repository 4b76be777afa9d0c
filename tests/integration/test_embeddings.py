"""Embeddings of real engines through the official clients: a real model's meaning, and the forms of requests."""

import base64
import contextlib
import json
import math
import struct
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from tests.support.minilm import minilm_gguf
from tests.support.shell import Shell, free_port
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until

openai = pytest.importorskip("openai")
ollama = pytest.importorskip("ollama")

MINILM, CHAT, LATE = "minilm:f16", "chat:f32", "late:f16"
CATS = ["A cat sits on the mat.", "The kitten is lying on the rug."]
STOCKS = "The stock market fell sharply today."

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    file = minilm_gguf()
    shell = Shell(tmp_path_factory.mktemp("home"))
    for name in (MINILM, LATE):
        shell.ok("pull", str(file), "--name", name)
    with shell.config.open("a") as config:
        config.write("late_chunking_max_tokens = 40\n[model_overrides.late]\nlate_chunking = true\n"
                     "[semantic_cache]\nthreshold = 0.75\n")
    shell.ok("pull", str(tiny_gguf(shell.home / "chat.gguf")), "--name", CHAT)
    shell.start()
    yield shell
    shell.stop()


@pytest.fixture
def openai_client(daemon):
    with openai.OpenAI(base_url=f"{daemon.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
def ollama_client(daemon):
    return ollama.Client(host=daemon.url, timeout=60)


def post(daemon, path, body):
    request = urllib.request.Request(daemon.url + path, json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=100) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def cosine(one, other):
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))


def vectors(answer):
    return [row.embedding for row in answer.data]


def test_meaning_survives(openai_client, ollama_client):
    answer = openai_client.embeddings.create(model=MINILM, input=[*CATS, STOCKS])
    assert [row.index for row in answer.data] == [0, 1, 2] and answer.usage.prompt_tokens > 15
    first, second, stocks = vectors(answer)
    assert len(first) == len(second) == len(stocks) == 384
    assert cosine(first, second) == pytest.approx(0.557, abs=0.03)
    assert cosine(first, stocks) == pytest.approx(0.091, abs=0.03)
    other_way = ollama_client.embed(model=MINILM, input=[*CATS, STOCKS]).embeddings
    assert [cosine(*pair) for pair in zip(other_way, (first, second, stocks), strict=True)] == pytest.approx([1, 1, 1])


def test_base64_is_the_same_numbers(daemon):
    told = {}
    for encoding in ("float", "base64", None):
        status, answer = post(daemon, "/v1/embeddings", {"model": MINILM, "input": CATS, "encoding_format": encoding})
        assert status == 200
        told[encoding] = [row["embedding"] for row in answer["data"]]
    assert told[None] == told["float"]
    for numbers, packed in zip(told["float"], told["base64"], strict=True):
        assert base64.b64decode(packed) == struct.pack("<384f", *numbers)


def test_order_is_that_of_the_request(openai_client):
    words = [f"number {number}" for number in range(150)]
    together = vectors(openai_client.embeddings.create(model=MINILM, input=words))
    for number in (0, 63, 64, 149):
        alone = vectors(openai_client.embeddings.create(model=MINILM, input=words[number]))
        assert cosine(together[number], alone[0]) == pytest.approx(1, abs=1e-4)


def test_token_ids_are_what_text_becomes(openai_client):
    tokens = [101, 7592, 8870, 102]  # [CLS] hello cats [SEP]
    text, single, several = (vectors(openai_client.embeddings.create(model=MINILM, input=given))[-1]
                             for given in ("hello cats", tokens, [[101, 102], tokens]))
    assert cosine(text, single) == pytest.approx(1, abs=1e-4) and cosine(text, several) == pytest.approx(1, abs=1e-4)


def test_tokens_that_the_model_does_not_have(daemon):
    status, answer = post(daemon, "/v1/embeddings", {"model": MINILM, "input": [999_999]})
    assert status == 400 and "invalid tokens" in answer["error"]["message"]
    assert post(daemon, "/v1/embeddings", {"model": MINILM, "input": "still there"})[0] == 200


def test_many_short_texts(daemon):
    status, answer = post(daemon, "/v1/embeddings", {"model": MINILM, "input": [f"w{n}" for n in range(400)]})
    assert status == 200 and [row["index"] for row in answer["data"]] == list(range(400))


@pytest.mark.parametrize("given", ["cat " * 600, ["short", "cat " * 600], [[101, *[4937] * 600, 102]]])
def test_too_long_is_refused_with_the_limit(daemon, given):
    status, answer = post(daemon, "/v1/embeddings", {"model": MINILM, "input": given})
    message = answer["error"]["message"]
    assert status == 400 and "602 tokens" in message and "at most 512" in message
    assert f"input {len(given) if isinstance(given[0], str) and isinstance(given, list) else 1} of" in message
    assert post(daemon, "/api/embed", {"model": MINILM, "input": given, "truncate": False})[0] == 400


def test_ollama_cuts_what_is_too_long(ollama_client):
    fits, longer, short = ollama_client.embed(model=MINILM, input=["cat " * 510, "cat " * 900, "cat"]).embeddings
    assert fits == pytest.approx(longer) and cosine(fits, short) < 0.99


def test_ollama_both_forms(ollama_client):
    answer = ollama_client.embed(model=MINILM, input=CATS[0], keep_alive="5m")
    assert answer.model == MINILM and answer.prompt_eval_count == 9 and answer.total_duration > 0
    old = ollama_client.embeddings(model=MINILM, prompt=CATS[0])
    assert list(old.embedding) == pytest.approx(answer.embeddings[0])


def test_the_wrong_kind_of_model(daemon, openai_client, ollama_client):
    with pytest.raises(openai.BadRequestError, match="embedding"):
        openai_client.embeddings.create(model=CHAT, input="hello")
    with pytest.raises(openai.BadRequestError, match="completion"):
        openai_client.chat.completions.create(model=MINILM, messages=[{"role": "user", "content": "hi"}])
    for call in (lambda: ollama_client.embed(model=CHAT, input="hello"),
                 lambda: ollama_client.generate(model=MINILM, prompt="hello")):
        with pytest.raises(ollama.ResponseError) as caught:
            call()
        assert caught.value.status_code == 400
    status, answer = post(daemon, "/v1/messages", {"model": MINILM, "max_tokens": 5,
                                                   "messages": [{"role": "user", "content": "hi"}]})
    assert status == 400 and answer["error"]["type"] == "invalid_request_error"


# -- late chunking ---------------------------------------------------------------------------------------

PARTS = ["Berlin is the capital of Germany.", " The city has 3.85 million inhabitants.", " It lies on the Spree."]


@pytest.fixture(scope="module")
def bare(daemon):
    """The same model in an engine of its own that pools nothing: ask it, and the answer is JSON."""
    port = free_port()
    engine = [sys.executable, "-P", "-m", "blazar.engines.embedded", "--model", str(minilm_gguf()), "--embeddings",
              "--pooling", "none", "--ctx-size", "512", "--batch-size", "512", "--ubatch-size", "512",
              "--parallel", "1", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(engine, env=daemon.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        def ask(path, body):
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode())
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read())

        until(lambda: _answers(ask), 60)
        yield ask
        process.kill()


def _answers(ask):
    with contextlib.suppress(OSError):
        return ask("/tokenize", {"content": "x"})


def by_hand(rows):
    """The mean of vectors, with its length made 1."""
    mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    return [number / math.hypot(*mean) for number in mean]


def test_late_chunks_are_means_of_what_the_whole_document_makes_of_their_tokens(openai_client, bare):
    """Counted by hand from the vectors that another engine gives to the document as one text."""
    answer = openai_client.embeddings.create(model=LATE, input=PARTS, extra_body={"late_chunking": True})
    rows = bare("/embeddings", {"input": "".join(PARTS)})[0]["embedding"]
    sizes = [len(bare("/tokenize", {"content": part})["tokens"]) for part in PARTS]
    assert answer.usage.prompt_tokens == len(rows) == sum(sizes) + 2
    start = 1
    for found, size in zip(vectors(answer), sizes, strict=True):
        assert found == pytest.approx(by_hand(rows[start:start + size]), abs=2e-4)
        start += size
    alone = [vectors(openai_client.embeddings.create(model=MINILM, input=part))[0] for part in PARTS]
    late = vectors(answer)
    asked = vectors(openai_client.embeddings.create(model=MINILM, input="Berlin"))[0]
    assert cosine(late[1], asked) > cosine(alone[1], asked) + 0.1, "the city's part knows which city it is"


def test_a_model_with_late_chunking_is_else_the_same(openai_client, ollama_client):
    for given in (CATS, [STOCKS], "hello cats"):
        plain, other = (vectors(openai_client.embeddings.create(model=name, input=given)) for name in (MINILM, LATE))
        assert [cosine(*pair) for pair in zip(plain, other, strict=True)] == pytest.approx([1] * len(plain), abs=1e-4)
    assert ollama_client.embed(model=LATE, input=CATS).prompt_eval_count == ollama_client.embed(
        model=MINILM, input=CATS).prompt_eval_count


def test_a_document_that_is_too_long(daemon):
    body = {"model": LATE, "input": ["cat " * 20, "dog " * 20], "late_chunking": True}
    status, answer = post(daemon, "/v1/embeddings", body)
    assert status == 413 and "42 tokens long, and late:f16 takes at most 40" in answer["error"]["message"]
    status, answer = post(daemon, "/v1/embeddings", {**body, "model": MINILM})
    assert status == 400 and "late_chunking = true" in answer["error"]["message"]


def test_fewer_dimensions(openai_client):
    whole, short = (vectors(openai_client.embeddings.create(model=MINILM, input=STOCKS, **more))[0]
                    for more in ({}, {"dimensions": 100}))
    assert short == pytest.approx([number / math.hypot(*whole[:100]) for number in whole[:100]])
    with pytest.raises(openai.BadRequestError, match="have 384"):
        openai_client.embeddings.create(model=MINILM, input=STOCKS, dimensions=385)


def test_questions_of_one_meaning_get_one_answer(openai_client):
    """The semantic cache, by the real model's vectors."""
    def ask(words):
        answer = openai_client.with_raw_response.chat.completions.create(
            model=CHAT, messages=[{"role": "user", "content": words}], extra_body={"grammar": 'root ::= "a"'},
            extra_headers={"X-Blazar-Cache": "on"})
        assert answer.parse().choices[0].message.content == "a"
        return answer.headers["x-blazar-cache"], float(answer.headers.get("x-blazar-cache-similarity", 0))

    told = [ask(words) for words in ("How do I reset my password?", "How can I reset my password?",
                                     "What is the capital of France?", "Tell me the capital city of France.")]
    assert [outcome for outcome, _ in told] == ["miss", "hit", "miss", "hit"] and told[1][1] < 1, told
