"""Embeddings whatever a client sends and a child answers (FC-20), with a scripted child."""

import base64
import itertools
import json
import math
import struct

import pytest

from tests.support.fake_supervisor import endpoint, eventually
from tests.support.gateway_under_test import MODEL, GatewayUnderTest, is_error_of, post
from tests.support.scripted_child import json_answer

EMBEDS = "words:f32"
DIALECTS = {"/v1/embeddings": "openai", "/api/embed": "ollama"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    gateway = GatewayUnderTest(tmp_path_factory.mktemp("embeddings"), installed=(MODEL, EMBEDS))
    gateway.supervisor.facts[EMBEDS] = {"capabilities": ["embedding"]}
    gateway.supervisor.loaded[EMBEDS] = endpoint(EMBEDS, gateway.child.address, ctx=8)
    gateway.supervisor.loadable[EMBEDS] = gateway.supervisor.loaded[EMBEDS]
    with gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    fresh = shared.fresh()
    fresh.child.play = embeds()
    return fresh


def vector_of(item):
    """Two numbers by which a test knows the input again."""
    return [float(len(item)), float(ord(item[0]) if isinstance(item, str) else item[0])]


def embeds(change=lambda rows: rows):
    """A child that embeds, counts a token for each letter, refuses more than 8, and whose rows `change` amends."""
    def play(talk):
        asked = json.loads(talk.request.body)
        if b"/tokenize" in talk.request.head:
            marks = [1, 2] if asked["add_special"] else [[], []]
            tokens = [ord(letter) for letter in asked["content"]]
            told = {"tokens": [marks[0], *tokens, marks[1]] if asked["add_special"] else tokens}
        elif any(len(item) + 2 * isinstance(item, str) > 8 for item in asked["input"]):
            return talk.send(json_answer(b'{"error":{"code":500,"message":"input is too large"}}', "500 Oops"))
        else:
            rows = [{"object": "embedding", "index": index, "embedding": vector_of(item)}
                    for index, item in enumerate(asked["input"])]
            told = {"object": "list", "data": change(rows),
                    "usage": {"prompt_tokens": sum(map(len, asked["input"]))}}
        return talk.send(json_answer(json.dumps(told).encode()))
    return play


def ask(gateway, path, given, **more):
    return gateway.request("POST", path, {"model": EMBEDS, "input": given, **more})


def vectors(path, answer):
    assert answer.status == 200, answer
    told = answer.json()
    if path == "/api/embed":
        return told["embeddings"]
    assert told["object"] == "list" and [row["index"] for row in told["data"]] == list(range(len(told["data"])))
    assert all(row["object"] == "embedding" for row in told["data"])
    return [row["embedding"] for row in told["data"]]


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize(("given", "items"), [("a", ["a"]), (["a", "bb", "c"], ["a", "bb", "c"]),
                                              ([1, 2, 3], [[1, 2, 3]]), ([[1, 2], [3]], [[1, 2], [3]]), ([" "], [" "])])
def test_every_form(gateway, path, given, items):
    assert vectors(path, ask(gateway, path, given)) == [vector_of(item) for item in items]
    assert [json.loads(one.body)["input"] for one in gateway.child.received] == [items]


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize(("given", "words"), [
    (["a", "", "b"], "`input[1]`"), (["a", [1]], "`input[1]`"),
    ([1, "a"], "`input[1]`"), ([[1], "a"], "`input[1]`"), ([[1], []], "`input[1]`"), ([[]], "`input[0]`"),
    ([True], "`input[0]`"), ([1, -1], "`input[1]`"), ([1.5], "`input[0]`"), ([[1, None]], "`input[0][1]`"),
    ({}, "an object"), (5, "a number"), ([None], "`input[0]`"), ([["a"]], "`input[0][0]`")])
def test_what_cannot_be_embedded_is_refused_by_its_place(gateway, path, given, words):
    answer = ask(gateway, path, given)
    assert answer.status == 400 and words in is_error_of(DIALECTS[path], answer)
    assert gateway.child.received == []


@pytest.mark.parametrize(("given", "words"), [([], "empty list"), (None, "`input`"), ("", "`input`")])
def test_nothing_to_embed_is_refused(gateway, given, words):
    answer = ask(gateway, "/v1/embeddings", given)
    assert answer.status == 400 and words in is_error_of("openai", answer) and gateway.child.received == []


@pytest.mark.parametrize(("path", "fields", "told"), [
    *(("/api/embed", {"input": given}, {"model": EMBEDS, "embeddings": []}) for given in ([], None, "")),
    ("/api/embeddings", {"prompt": ""}, {"embedding": []}), ("/api/embeddings", {}, {"embedding": []})])
def test_clients_of_ollama_load_a_model_with_nothing_to_embed(gateway, path, fields, told):
    answer = gateway.request("POST", path, {"model": EMBEDS, **fields})
    assert (answer.status, answer.json(), gateway.child.received) == (200, told, [])
    unloaded = gateway.request("POST", path, {"model": EMBEDS, "keep_alive": 0, **fields})
    assert (unloaded.status, unloaded.json()) == (200, told)
    assert [message["model"] for message in gateway.supervisor.notes("evict")][-1] == EMBEDS
    assert gateway.request("POST", path, {"model": "nobody", **fields}).status == 404


@pytest.mark.parametrize("path", DIALECTS)
def test_order_is_that_of_the_request_whatever_the_childs(gateway, path):
    gateway.child.play = embeds(lambda rows: rows[::-1])
    words = ["a", "bb", "ccc", "dddd"]
    assert vectors(path, ask(gateway, path, words)) == [vector_of(word) for word in words]


@pytest.mark.parametrize("path", DIALECTS)
def test_a_long_list_goes_in_batches(gateway, path):
    words = [f"{number}" for number in range(3000)]
    answer = ask(gateway, path, words)
    assert vectors(path, answer) == [vector_of(word) for word in words]
    sent = [json.loads(one.body)["input"] for one in gateway.child.received]
    assert list(itertools.chain(*sent)) == words and max(map(len, sent)) <= 64
    told = answer.json()
    assert told.get("prompt_eval_count", told.get("usage", {}).get("prompt_tokens")) == sum(map(len, words))


BROKEN = {
    "one missing": lambda rows: rows[:-1], "one too many": lambda rows: [*rows, rows[0]], "none": lambda rows: [],
    "empty": lambda rows: [*rows[:-1], {**rows[-1], "embedding": []}],
    "no vector": lambda rows: [*rows[:-1], {"index": 1}], "null": lambda rows: None, "no row": lambda rows: [1, 2],
    "same index twice": lambda rows: [rows[0], {**rows[1], "index": 0}],
    "index is odd": lambda rows: [rows[0], {**rows[1], "index": []}],
    "not numbers": lambda rows: [rows[0], {**rows[1], "embedding": [1.0, None]}],
    "too large for a float": lambda rows: [rows[0], {**rows[1], "embedding": [1.0, 1e300]}],
    "other length": lambda rows: [rows[0], {**rows[1], "embedding": [1.0]}],
}


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize("kind", BROKEN)
def test_a_childs_broken_answer_is_a_502_never_a_short_list(gateway, path, kind):
    gateway.child.play = embeds(BROKEN[kind])
    answer = ask(gateway, path, ["a", "bb"])
    assert answer.status == 502 and is_error_of(DIALECTS[path], answer)


@pytest.mark.parametrize("body", [b"{", b"[]", b"null", b"\xff"])
def test_so_is_one_that_is_no_json_object(gateway, body):
    gateway.child.play = lambda talk: talk.send(json_answer(body))
    assert ask(gateway, "/v1/embeddings", "a").status == 502


def test_a_child_that_dies_is_a_502(gateway):
    gateway.child.play = lambda talk: talk.close()
    answer = ask(gateway, "/v1/embeddings", ["a" * 20])
    assert answer.status == 502 and "closed" in is_error_of("openai", answer)


def test_base64_is_four_bytes_each_the_least_first(gateway):
    told = ask(gateway, "/v1/embeddings", ["a", "bb"], encoding_format="base64").json()
    unpacked = [list(struct.unpack("<2f", base64.b64decode(row["embedding"]))) for row in told["data"]]
    assert unpacked == [vector_of("a"), vector_of("bb")]
    assert told["model"] == EMBEDS and told["usage"] == {"prompt_tokens": 3, "total_tokens": 3}


@pytest.mark.parametrize("value", ["int8", 1, ["float"]])
def test_other_encodings_are_refused(gateway, value):
    answer = ask(gateway, "/v1/embeddings", "a", encoding_format=value)
    assert answer.status == 400 and "encoding_format" in is_error_of("openai", answer)


@pytest.mark.parametrize("path", DIALECTS)
def test_dimensions_shorten_and_keep_the_length_one(gateway, path):
    assert vectors(path, ask(gateway, path, ["aaa", "b"], dimensions=1)) == [[1.0], [1.0]]
    (whole,) = vectors(path, ask(gateway, path, "aaa", dimensions=2.0))
    assert whole == pytest.approx([3 / math.hypot(3, 97), 97 / math.hypot(3, 97)])
    assert vectors(path, ask(gateway, path, "aaa", dimensions=None)) == [[3.0, 97.0]]


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize(("wanted", "why"), [(0, "from 1 on"), (-1, "from 1 on"), (1.5, "a whole number"),
                                             ("2", "number"), (True, "number"), (3, "have 2"), (4096, "have 576")])
def test_other_dimensions_are_refused(gateway, path, wanted, why):
    answer = ask(gateway, path, "a", dimensions=wanted)
    told = is_error_of(DIALECTS[path], answer)
    assert answer.status == 400 and "dimensions" in told and why in told


# -- late chunking ---------------------------------------------------------------------------------------


def test_late_chunking_has_to_be_allowed(gateway):
    answer = ask(gateway, "/v1/embeddings", ["a", "b"], late_chunking=True)
    told = is_error_of("openai", answer)
    assert answer.status == 400 and 'late_chunking = true in [model_overrides."words:f32"]' in told
    assert gateway.child.received == [] and ask(gateway, "/v1/embeddings", "a", late_chunking=False).status == 200


def token_rows(change=lambda rows: rows, cut=None):
    """A child that gives a vector for each token: what it is, and how long the whole text is."""
    def play(talk):
        asked = json.loads(talk.request.body)
        if b"/tokenize" in talk.request.head:
            tokens = [ord(letter) for letter in asked["content"] if letter != " "]
            told = {"tokens": [1, *tokens, 2] if asked["add_special"] else tokens}
        else:
            assert b"POST /embeddings " in talk.request.head
            given = asked["input"]
            tokens = given if isinstance(given, list) else [1, *map(ord, given), 2]
            told = [{"index": 0, "embedding": change([[float(token), float(len(tokens))] for token in tokens])}]
        return talk.send(json_answer(json.dumps(told).encode()[:cut]))
    return play


def unit(*numbers):
    return [number / math.hypot(*numbers) for number in numbers]


@pytest.fixture
def late(gateway):
    gateway.supervisor.facts[EMBEDS] = {"capabilities": ["embedding"], "late_chunking": True}
    gateway.supervisor.push()
    gateway.child.play = token_rows()
    eventually(lambda: ask(gateway, "/v1/embeddings", "x").json()["data"][0]["embedding"] != [1.0, 120.0])
    yield gateway.fresh()
    gateway.supervisor.facts[EMBEDS] = {"capabilities": ["embedding"]}
    gateway.supervisor.push()
    gateway.child.play = embeds()
    eventually(lambda: ask(gateway, "/v1/embeddings", "x").status == 200)


@pytest.mark.parametrize(("given", "spans", "whole"), [
    (["ab", "c"], [(97 + 98, 2 * 5), (99, 5)], [1, 97, 98, 99, 2]),
    ([[7, 8], [9]], [(15, 2 * 3), (9, 3)], [7, 8, 9]), ("a", [(97, 3)], [1, 97, 2])])
def test_each_part_is_the_mean_of_its_own_tokens(late, given, spans, whole):
    late.child.play = token_rows()
    answer = ask(late, "/v1/embeddings", given, late_chunking=True)
    for found, expected in zip(vectors("/v1/embeddings", answer), spans, strict=True):
        assert found == pytest.approx(unit(*expected))
    assert answer.json()["usage"]["prompt_tokens"] == len(whole)
    assert json.loads(late.child.received[-1].body) == {"input": whole}


@pytest.mark.parametrize("path", DIALECTS)
def test_without_late_chunking_a_text_is_the_mean_of_all_its_tokens(late, path):
    late.child.play = token_rows()
    found = vectors(path, ask(late, path, ["a", "bb"]))
    assert found == [pytest.approx(unit(100, 9)), pytest.approx(unit(1 + 98 + 98 + 2, 16))]


@pytest.mark.parametrize(("given", "status", "why"), [
    (["a" * 4, "b" * 3], 413, "9 tokens long, and words:f32 takes at most 8"),
    (["a", " "], 400, "input[1]` has no token")])
def test_documents_that_are_refused(late, given, status, why):
    late.child.play = token_rows()
    answer = ask(late, "/v1/embeddings", given, late_chunking=True)
    assert answer.status == status and why in is_error_of("openai", answer)


@pytest.mark.parametrize(("change", "cut"), [
    (lambda rows: rows[1:], None), (lambda rows: [*rows, rows[0]], None), (lambda rows: [], None),
    (lambda rows: [*rows[:-1], ["x", 1.0]], None), (lambda rows: [rows[0], *([1.0] for _ in rows[1:])], None),
    (lambda rows: [[1.0] * 200000] * 3, None), (lambda rows: rows, 60), (lambda rows: [[None, 1.0]] * 5, None)])
def test_a_child_that_answers_badly(late, change, cut):
    late.child.play = token_rows(change, cut)
    answer = ask(late, "/v1/embeddings", ["ab", "c"], late_chunking=True)
    assert answer.status == 502, answer


# -- too long --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path", "more"), [("/v1/embeddings", {}), ("/api/embed", {"truncate": False})])
@pytest.mark.parametrize(("given", "number", "tokens"), [("a" * 7, 1, 9), (["a", "b" * 20], 2, 22),
                                                         ([[1] * 9], 1, 9)])
def test_too_long_names_the_input_and_the_limit(gateway, path, more, given, number, tokens):
    answer = ask(gateway, path, given, **more)
    message = is_error_of(DIALECTS[path], answer)
    assert answer.status == 400 and f"input {number} of" in message and f"{tokens} tokens" in message
    assert "at most 8" in message


@pytest.mark.parametrize("more", [{}, {"truncate": True}, {"truncate": None}])
def test_ollama_cuts_and_keeps_the_engines_marks(gateway, more):
    answer = ask(gateway, "/api/embed", ["abc", "abcdefghijkl", ], **more)
    assert answer.status == 200 and len(answer.json()["embeddings"]) == 2
    sent = json.loads(gateway.child.received[-1].body)["input"]
    assert sent == ["abc", [1, *map(ord, "abcdef"), 2]]


def test_ollama_cuts_token_lists_too(gateway):
    assert ask(gateway, "/api/embed", [list(range(20))]).status == 200
    assert json.loads(gateway.child.received[-1].body)["input"] == [list(range(8))]


def test_an_error_of_the_child_about_something_else_stays_what_it_is(gateway):
    def play(talk):
        if b"/tokenize" in talk.request.head:
            return embeds()(talk)
        return talk.send(json_answer(b'{"error":{"code":400,"message":"no such thing"}}', "400 Bad"))
    gateway.child.play = play
    for path, dialect in DIALECTS.items():
        gateway.child.received.clear()
        answer = ask(gateway, path, "a")
        assert answer.status == 400 and is_error_of(dialect, answer) == "no such thing"
        assert [b"/tokenize" in one.head for one in gateway.child.received] == [False, True]


# -- Ollama's older form, capability, keys ---------------------------------------------------------------


def test_the_older_form_takes_one_text(gateway):
    answer = gateway.request("POST", "/api/embeddings", {"model": EMBEDS, "prompt": "abcdefghijkl", "options": {}})
    assert answer.json() == {"embedding": vector_of([1] * 8)}
    for prompt in (["a"], [1], 5, {}):
        refused = gateway.request("POST", "/api/embeddings", {"model": EMBEDS, "prompt": prompt})
        assert refused.status == 400 and "`prompt`" in is_error_of("ollama", refused)


def test_ollama_says_how_long_it_took(gateway):
    told = ask(gateway, "/api/embed", "abc", keep_alive="5m").json()
    assert told["model"] == EMBEDS and told["prompt_eval_count"] == 3
    assert told["total_duration"] > 0 and told["load_duration"] == 0
    assert eventually(lambda: gateway.supervisor.notes("keep_alive"))[-1]["seconds"] == 300


@pytest.mark.parametrize(("path", "dialect", "model", "missing"), [
    ("/v1/embeddings", "openai", MODEL, "embedding"), ("/api/embed", "ollama", MODEL, "embedding"),
    ("/api/embeddings", "ollama", MODEL, "embedding"), ("/v1/chat/completions", "openai", EMBEDS, "completion"),
    ("/v1/completions", "openai", EMBEDS, "completion"), ("/api/chat", "ollama", EMBEDS, "completion"),
    ("/api/generate", "ollama", EMBEDS, "completion"), ("/v1/messages", "anthropic", EMBEDS, "completion"),
    ("/v1/messages/count_tokens", "anthropic", EMBEDS, "completion")])
def test_a_model_that_cannot_do_it(gateway, path, dialect, model, missing):
    answer = gateway.request("POST", path, {"model": model, "input": "a", "prompt": "a", "max_tokens": 5,
                                            "messages": [{"role": "user", "content": "hi"}]})
    message = is_error_of(dialect, answer)
    assert answer.status == 400 and model in message and f"'{missing}'" in message
    assert gateway.child.received == []


@pytest.mark.parametrize("path", [*DIALECTS, "/api/embeddings"])
def test_an_unknown_model(gateway, path):
    answer = gateway.request("POST", path, {"model": "nobody", "input": "a", "prompt": "a"})
    assert answer.status == 404


def test_a_client_that_leaves_ends_the_rest_of_its_batches(gateway):
    def play(talk):
        if len(gateway.child.received) > 1:
            talk.client_closes()
        embeds()(talk)
    gateway.child.play = play
    body = json.dumps({"model": EMBEDS, "input": ["a"] * 3000}).encode()
    with gateway.connect() as sock:
        sock.sendall(post("/v1/embeddings", body))
        eventually(lambda: len(gateway.child.received) > 1)
    gateway.child.play = embeds()
    assert ask(gateway, "/v1/embeddings", "a").status == 200
    assert len(gateway.child.received) == 3
