"""What waits for a slot beside the other guards: identical requests, cancelling, a wedged child, kept answers."""

import json
import time

import pytest

from tests.support.fake_supervisor import FakeSupervisor, endpoint, eventually
from tests.support.gateway_under_test import ASK, MODEL, is_error_of, post, read_all, read_until
from tests.support.queued import Held, Queued, stream_request
from tests.support.scripted_child import ScriptedChild, hello_world, json_answer

DIALECTS = list(ASK)
SHARED = ("openai", "ollama", "anthropic")
"""Those whose chats are shared."""
OTHER = [{"role": "user", "content": "something else"}]
ENDS = {"openai": (b'data: {"error":{"message":"', b"[DONE]"), "ollama": (b'\n{"error":"', b'"done":true'),
        "anthropic": (b'event: error\ndata: {"type":"error"', b"message_stop"),
        "responses": (b'event: error\ndata: {"error":{"message":"', b"response.completed")}
"""How an error is told in a stream that has had signs of life only, and what a whole one has."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with Queued(tmp_path_factory.mktemp("both"), {"singleflight": True, "sse_ping_interval": 1}) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    fresh = shared.fresh()
    fresh.held = fresh.child.play = Held()
    yield fresh
    fresh.held.let(100)
    eventually(lambda: fresh.count("blazar_requests_in_flight") == 0)
    assert fresh.parked == 0 and "Traceback" not in fresh.supervisor.log()


def under_way(gateway, count):
    eventually(lambda: gateway.count("blazar_requests_in_flight") == count, what=f"{count} under way")


def fill(gateway):
    """Have the only slot held."""
    busy = gateway.start(messages=OTHER)
    eventually(lambda: gateway.held.held == 1)
    return busy


def rows(gateway):
    return gateway.request("GET", "/api/requests").json()["requests"]


def raw(dialect):
    path, body = ASK[dialect]
    return post(path, json.dumps({**body, "stream": False}).encode(), "Connection: close")


@pytest.mark.parametrize("dialect", SHARED)
def test_a_parked_leader_leaves_and_its_follower_has_the_place(gateway, dialect):
    busy = fill(gateway)
    with gateway.connect() as leader, gateway.connect() as follower:
        leader.sendall(raw(dialect))
        eventually(lambda: gateway.parked == 1)
        follower.sendall(raw(dialect))
        under_way(gateway, 3)
        leader.close()
        eventually(lambda: gateway.parked == 1)
        gateway.held.let(2)
        got = read_all(follower)
    assert busy.result().status == 200
    assert b" 200 " in got and b"X-Blazar-Coalesced: true" in got and b"Hello world" in got
    assert len(gateway.child.received) == 2


def test_when_all_have_left_while_parked_nothing_is_run(gateway):
    fill(gateway)
    with gateway.connect() as leader, gateway.connect() as follower:
        leader.sendall(raw("openai"))
        eventually(lambda: gateway.parked == 1)
        follower.sendall(raw("openai"))
        under_way(gateway, 3)
        leader.close()
        follower.close()
        under_way(gateway, 1)
    assert gateway.parked == 0
    gateway.held.let(1)
    under_way(gateway, 0)
    assert len(gateway.child.received) == 1


def test_a_follower_of_a_parked_leader_waits_five_seconds_and_then_in_the_line(gateway):
    fill(gateway)
    leader = gateway.start(stream=False)
    eventually(lambda: gateway.parked == 1)
    began = time.monotonic()
    follower = gateway.start(stream=False)
    eventually(lambda: gateway.parked == 2, 15)
    assert time.monotonic() - began > 4
    gateway.held.let(3)
    assert {leader.result().status, follower.result().status} == {200}
    assert follower.result().headers["x-blazar-queue-position"] == "2"
    assert "x-blazar-coalesced" not in follower.result().headers


def test_a_parked_leader_that_is_cancelled_leaves_its_follower_alone(gateway):
    busy = fill(gateway)
    leader = gateway.start(headers={"X-Request-Id": "lead"}, stream=False)
    eventually(lambda: gateway.parked == 1)
    follower = gateway.start(stream=False)
    under_way(gateway, 3)
    assert gateway.request("DELETE", "/api/requests/lead").status == 200
    assert leader.result().status == 410
    eventually(lambda: gateway.parked == 1)
    gateway.held.let(2)
    assert (busy.result().status, follower.result().status) == (200, 200)
    assert "x-blazar-coalesced" not in follower.result().headers


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_parked_request_is_cancelled(gateway, dialect):
    """One that does not stream, and one whose stream has had a sign of life."""
    busy = fill(gateway)
    whole = gateway.start(dialect, headers={"X-Request-Id": "stop-it"}, stream=False)
    eventually(lambda: gateway.parked == 1)
    with gateway.connect() as sock:
        sock.sendall(stream_request(dialect, "X-Request-Id: stop-it"))
        assert b" 200 " in read_until(sock, b"\r\n\r\n")
        assert [row["state"] for row in rows(gateway)] == ["running", "queued", "queued"]
        assert gateway.request("DELETE", "/api/requests/stop-it").json()["cancelled"] == 2
        told = read_all(sock)
    error, end = ENDS[dialect]
    assert error in b"\n" + told and b"was cancelled on the server" in told and end not in told, told
    assert whole.result().status == 410 and "was cancelled on the server" in is_error_of(dialect, whole.result())
    assert gateway.parked == 0
    gateway.held.let(1)
    assert busy.result().status == 200 and len(gateway.child.received) == 1


def test_a_request_that_waits_too_long_is_refused_and_who_followed_it_goes_on_waiting(tmp_path):
    with Queued(tmp_path, {"singleflight": True, "queue_timeout_secs": 3}) as gateway:
        busy = fill(gateway)
        leader = gateway.start(stream=False)
        eventually(lambda: gateway.parked == 1)
        began = time.monotonic()
        eventually(lambda: time.monotonic() - began > 1.5)
        follower = gateway.start(stream=False)
        assert leader.result().status == 503 and "queue_timeout_secs" in is_error_of("openai", leader.result())
        eventually(lambda: gateway.parked == 1)
        gateway.held.let(2)
        assert (busy.result().status, follower.result().status) == (200, 200)


class Replacing(FakeSupervisor):
    """Finds every child wedged; `heir` is who comes after one that is put down."""

    heir = None

    def _hear(self, link, message):
        if message["kind"] == "put_down":
            self.loaded.clear()
            self.loadable[MODEL] = self.heir
        super()._hear(link, message)


class Wedging(Queued):
    supervised = Replacing


@pytest.mark.parametrize("is_draining", [False, True])
def test_a_wedged_child_is_put_down_and_those_parked_go_on_to_the_next_one(tmp_path, is_draining):
    """Also if it was to go anyway once all who wait were served."""
    settings = {"child_header_timeout_secs": 2}
    with Wedging(tmp_path, settings) as gateway, ScriptedChild(hello_world) as heir:
        gateway.supervisor.wedged = True
        gateway.supervisor.heir = endpoint(MODEL, heir.address, 2, slots=1)
        answers = [*gateway.fill(), *(gateway.start(dialect) for dialect in DIALECTS)]
        eventually(lambda: gateway.parked == len(DIALECTS))
        if is_draining:
            gateway.supervisor.link().ask_later("drain", lambda _: None, child_id=f"{MODEL}#1")
            gateway.supervisor.loaded.clear()
            gateway.supervisor.push()
        assert [answer.result().status for answer in answers] == [200] * len(answers)
        assert len(gateway.child.received) <= 2, "one may get a slot while the child is looked at"
        assert len(heir.received) == len(answers)
        assert len(gateway.supervisor.notes("put_down")) == 1


def test_what_is_kept_is_answered_beside_a_full_queue(tmp_path):
    """It takes no slot; and the model that compares has slots of its own."""
    words = "words:f16"

    def embed(talk):
        rows = [{"index": 0, "embedding": [1.0, len(json.loads(talk.request.body)["input"][0]) / 1000]}]
        talk.send(json_answer(json.dumps({"data": rows, "usage": {"prompt_tokens": 2}}).encode()))

    def answer(talk):
        usage = {"prompt_tokens": 2, "completion_tokens": 3}
        choice = {"index": 0, "message": {"role": "assistant", "content": "kept"}, "finish_reason": "stop"}
        talk.send(json_answer(json.dumps({"choices": [choice], "usage": usage}).encode()))

    settings = {"semantic_cache": {"enabled": True, "ttl_secs": 600, "threshold": 0.9, "max_entries": 9},
                "max_queued": 1}
    with Queued(tmp_path, settings, installed=(MODEL, words)) as gateway, ScriptedChild(embed) as embedder:
        gateway.supervisor.facts[words] = {"capabilities": ["embedding"], "size": 5, "digest": "e" * 64}
        gateway.supervisor.loaded[words] = endpoint(words, embedder.address)
        gateway.supervisor.push()
        gateway.child.play = answer
        first = gateway.ask("openai", stream=False)
        assert first.headers["x-blazar-cache"] == "miss"
        gateway.held = gateway.child.play = Held()
        gateway.start(messages=OTHER, temperature=0.5)
        eventually(lambda: gateway.held.held == 1)
        gateway.start(messages=OTHER, temperature=0.5)
        eventually(lambda: gateway.parked == 1)
        near = [{"role": "user", "content": "hi!"}]
        for more in ({}, {"messages": near}, {"messages": near, "stream": True}):
            hit = gateway.ask("openai", **{"stream": False, **more})
            assert (hit.status, hit.headers["x-blazar-cache"]) == (200, "hit") and b"kept" in hit.body, hit
        assert gateway.ask("openai", temperature=0.7).status == 503


def test_who_waits_counts_against_the_requests_of_its_key_at_the_same_time(tmp_path):
    keys = [{"name": "two", "key": "sk-two", "max_concurrent": 2}, {"name": "light", "key": "sk-light"}]
    two = {"X-Api-Key": "sk-two"}
    with Queued(tmp_path, {"keys": keys}) as gateway:
        running = gateway.start(headers=two)
        eventually(lambda: gateway.held.held == 1)
        with gateway.connect() as sock:
            sock.sendall(stream_request("ollama", "X-Api-Key: sk-two"))
            eventually(lambda: gateway.parked == 1)
            refused = gateway.ask("openai", two)
            assert refused.status == 429 and "max_concurrent" in is_error_of("openai", refused)
        eventually(lambda: gateway.parked == 0)
        parked = gateway.start(headers=two)  # the place of the one that left is free again
        eventually(lambda: gateway.parked == 1)
        gateway.held.let(2)
        assert (running.result().status, parked.result().status) == (200, 200)


def test_the_sdks_of_openai_and_anthropic_try_again_when_they_are_told_to(tmp_path):
    """A queue that is full asks them to come back, and they do."""
    openai, anthropic = pytest.importorskip("openai"), pytest.importorskip("anthropic")
    with Queued(tmp_path, {"max_queued": 1}) as gateway:
        url = f"http://127.0.0.1:{gateway.supervisor.port}"
        messages = [{"role": "user", "content": "hi"}]

        def by_openai():
            with openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=60) as client:
                return client.chat.completions.create(model=MODEL, messages=messages).choices[0].message.content

        def by_anthropic():
            with anthropic.Anthropic(base_url=url, api_key="none", timeout=60) as client:
                return client.messages.create(model=MODEL, messages=messages, max_tokens=9).content[0].text

        for number, ask in enumerate((by_openai, by_anthropic), 1):
            gateway.fill(1)
            asked = gateway.asking.submit(ask)
            eventually(lambda number=number: gateway.count("blazar_queue_refusals_total", reason="full") == number)
            gateway.held.let(3)
            assert asked.result() == "Hello world"
            eventually(lambda: gateway.count("blazar_requests_in_flight") == 0)


def test_the_sdk_of_ollama_is_told_why(tmp_path):
    ollama = pytest.importorskip("ollama")
    with Queued(tmp_path, {"max_queued": 1, "queue_timeout_secs": 3, "sse_ping_interval": 1}) as gateway:
        client = ollama.Client(f"http://127.0.0.1:{gateway.supervisor.port}")
        gateway.fill()
        parked = client.chat(MODEL, [{"role": "user", "content": "hi"}], stream=True)
        refused = gateway.asking.submit(lambda: list(parked))
        eventually(lambda: gateway.parked == 1)
        with pytest.raises(ollama.ResponseError, match=r"server busy, please try again .*max_queued") as full:
            client.chat(MODEL, [{"role": "user", "content": "hi"}])
        assert full.value.status_code == 503
        with pytest.raises(ollama.ResponseError, match=r"server busy, please try again .*queue_timeout_secs"):
            refused.result()
