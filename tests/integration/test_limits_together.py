"""Limits, aliases, kept answers and shared ones in one request: what is charged, audited, and told to the client."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.cached import ON, Cached
from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import ASK, MODEL, is_error_of

ALIASES = [{"name": "brief", "model": "solo", "set": {"system": "Be brief."}}]
LIMITED = {"rpm": 20, "tpm": 1000}
NAMES = ["vector", "shared", "late", "seen", *(f"via_{dialect}" for dialect in ASK)]
KEYS = [{"name": name, "key": f"sk-{name}", "models": ["Brief"], **LIMITED} for name in NAMES]
COST = 10
"""Tokens of an answer that an engine makes."""


def key(name):
    return {"x-api-key": f"sk-{name}"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    config = {"keys": [*KEYS, {"name": "root", "key": "sk-root"}], "semantic_cache": ON, "alias": ALIASES}
    with Cached(tmp_path_factory.mktemp("together"), config) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


def ask(gateway, name, text, dialect="openai", **more):
    return gateway.ask(dialect, key(name), model="brief", messages=[{"role": "user", "content": text}],
                       **{"stream": False, **more})


def left(answer):
    return [int(answer.headers[f"x-ratelimit-remaining-{what}"]) for what in ("requests", "tokens")]


def audited(gateway, name, count):
    """The audit lines of the API key, once there are so many."""
    def lines():
        text = gateway.supervisor.paths.audit_log.read_text()
        return [line for line in map(json.loads, text.splitlines()) if line["key"] == name]
    return eventually(lambda: len(found := lines()) >= count and found, 20)


def charged(gateway, name, requests):
    """Tokens that the supervisor is told of, once it knows of so many requests."""
    def sums():
        rows = [row for note in gateway.supervisor.notes("report") for row in note["usage"] if row["key"] == name]
        return [sum(row[field] for row in rows) for field in ("requests", "prompt_tokens", "completion_tokens")]
    eventually(lambda: sums()[0] == requests, 20)
    return sum(sums()[1:])


@pytest.mark.parametrize("dialect", ASK)
def test_a_kept_answer_under_an_alias_costs_a_request_and_no_tokens(gateway, dialect):
    name = f"via_{dialect}"
    texts = ["What is a zebra?", "what is this: a zebra", "Something else entirely"]
    answers = [ask(gateway, name, text, dialect, **({"max_tokens": 50} if dialect == "anthropic" else {}))
               for text in texts]
    assert [answer.status for answer in answers] == [200] * 3
    assert [answer.headers["x-blazar-cache"] for answer in answers] == ["miss", "hit", "miss"]
    assert {(answer.headers["x-blazar-alias"], answer.headers["x-blazar-model"]) for answer in answers} == {
        ("brief", MODEL)}
    assert [left(answer)[0] for answer in answers] == [19, 18, 17]
    reserved = [1000 - spent - left(answer)[1] for answer, spent in zip(answers, (0, COST, COST), strict=True)]
    assert max(reserved) - min(reserved) <= 5, "only what the first one has used is gone, besides each one's estimate"
    assert len(gateway.chats()) == 2 and b"Be brief." in gateway.chats()[0].body
    assert charged(gateway, name, 3) == 2 * COST
    lines = audited(gateway, name, 3)
    assert [(line["cache"], line["alias"], line["model"], line["prompt_tokens"] + line["completion_tokens"])
            for line in lines] == [("miss", "brief", MODEL, COST), ("hit", "brief", MODEL, 0),
                                   ("miss", "brief", MODEL, COST)]
    refused = gateway.ask(dialect, key(name), messages=[{"role": "user", "content": texts[0]}])
    assert refused.status == 403 and "Brief" in is_error_of(dialect, refused), "what is kept opens no other way"


def test_whoever_shares_an_answer_pays_a_request_and_one_of_them_the_tokens(gateway):
    gone_on = threading.Event()

    def wait(conversation):
        if b"/v1/embeddings" not in conversation.request.head:
            assert gone_on.wait(20)
        gateway.play(conversation)

    gateway.child.play = wait
    with ThreadPoolExecutor(3) as callers:
        asked = [callers.submit(ask, gateway, "shared", "all the same") for _ in range(3)]
        eventually(lambda: b"blazar_requests_in_flight 3" in gateway.request("GET", "/metrics",
                                                                             headers=key("root")).body)
        eventually(gateway.chats)
        refused = ask(gateway, "shared", "one more", max_tokens=900)
        gone_on.set()
        answers = [one.result() for one in asked]
    assert refused.status == 429 and "tpm = 1000" in is_error_of("openai", refused), "each may yet need its own"
    assert {answer.status for answer in answers} == {200} and len(gateway.chats()) == 1
    assert len({answer.json()["choices"][0]["message"]["content"] for answer in answers}) == 1
    assert sum("x-blazar-coalesced" in answer.headers for answer in answers) == 2
    assert sorted(left(answer)[0] for answer in answers) == [17, 18, 19]
    again = ask(gateway, "shared", "all the same")
    assert again.headers["x-blazar-cache"] == "hit"
    assert charged(gateway, "shared", 4) == COST
    lines = audited(gateway, "shared", 5)
    assert sorted((line["status"], line["coalesced"], line["cache"], line["completion_tokens"]) for line in lines
                  if line["status"] == 200) == [(200, False, "hit", 0), (200, False, "miss", 3),
                                                (200, True, "miss", 0), (200, True, "miss", 0)]


def test_to_wait_for_a_vector_is_no_way_around_the_limit(gateway):
    gone_on = threading.Event()

    def wait(conversation):
        if b"/v1/embeddings" in conversation.request.head:
            assert gone_on.wait(20)
        gateway.play(conversation)

    gateway.child.play = wait
    with ThreadPoolExecutor(6) as callers:
        asked = [callers.submit(ask, gateway, "vector", letter * 9, max_tokens=400) for letter in "abcdef"]
        eventually(lambda: sum(one.done() for one in asked) == 4)
        gone_on.set()
        assert sorted(one.result().status for one in asked) == [200, 200, 429, 429, 429, 429]
    assert ask(gateway, "vector", "g" * 9, max_tokens=900).status == 200, "nothing stays reserved"


def test_who_may_use_an_alias_sees_its_requests_and_ends_them(gateway):
    gateway.child.play = lambda conversation: conversation.client_closes(20)
    with ThreadPoolExecutor(1) as callers:
        asked = callers.submit(gateway.ask, "openai", {**key("seen"), "X-Request-Id": "mine"}, model="brief",
                               messages=[{"role": "user", "content": "hi"}], stream=False)
        [row] = eventually(lambda: gateway.request("GET", "/api/requests", headers=key("seen")).json()["requests"], 20)
        assert (row["id"], row["key"], row["alias"], row["model"]) == ("mine", "seen", "brief", MODEL)
        assert gateway.request("GET", "/api/requests", headers=key("late")).json() == {"requests": [], "finished": []}
        assert gateway.request("DELETE", "/api/requests/mine", headers=key("late")).status == 404
        assert gateway.request("DELETE", "/api/requests/mine", headers=key("seen")).json()["cancelled"] == 1
        assert asked.result().status == 410
    [row] = gateway.request("GET", "/api/requests", headers=key("seen")).json()["finished"]
    assert (row["alias"], row["status"], row["error"]) == ("brief", 410, "request-cancelled")
    gateway.child.play = gateway.play
    after = ask(gateway, "seen", "after")
    assert left(after)[0] == 18 and left(after)[1] > 700, "what was reserved for the one that was ended is free"
