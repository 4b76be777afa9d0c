"""What waits for a slot: in the gateway, in a fair order, bounded; what each client sees of it."""

import json
import re
import threading
import time

import pytest

from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import ASK, MODEL, is_error_of, read_all, read_until
from tests.support.leaving import fin, reset
from tests.support.queued import Held, Queued, stream_request
from tests.support.scripted_child import STREAM_HEAD, ScriptedChild, chunked, delta, events, hello_world, json_answer

DIALECTS = list(ASK)
BUSY = {"openai": 503, "ollama": 503, "anthropic": 529, "responses": 503}
KEYS = [{"name": "heavy", "key": "sk-heavy", "weight": 3}, {"name": "light", "key": "sk-light"}]
POSITION = "x-blazar-queue-position"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with Queued(tmp_path_factory.mktemp("queue"), {"max_queued": 2, "sse_ping_interval": 1}) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    fresh = shared.fresh()
    fresh.held = fresh.child.play = Held()
    yield fresh
    fresh.held.let(100)
    eventually(lambda: fresh.count("blazar_requests_in_flight") == 0)
    assert fresh.parked == 0 and "Traceback" not in fresh.supervisor.log()


def test_the_child_gets_no_more_than_its_slots_and_the_others_their_turn(gateway):
    answers = gateway.fill(2)
    gateway.held.let(3)
    assert [answer.result().status for answer in answers] == [200, 200, 200]
    assert gateway.held.at_once == 1 and len(gateway.child.received) == 3
    assert [answer.result().headers.get(POSITION) for answer in answers] == [None, "1", "2"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_too_many_is_told_so_at_once(gateway, dialect):
    before = gateway.count("blazar_queue_refusals_total", reason="full")
    gateway.fill(2)
    answer = gateway.ask(dialect)
    assert answer.status == BUSY[dialect] and 1 <= int(answer.headers["retry-after"]) <= 60
    told = is_error_of(dialect, answer)
    assert told.startswith("server busy") and "2 requests wait" in told and "max_queued" in told
    if dialect == "anthropic":
        assert answer.json()["error"]["type"] == "overloaded_error"
    if dialect in ("openai", "responses"):
        assert answer.json()["error"] | {"message": ""} == {
            "type": "server_error", "code": "queue-full", "param": None, "message": ""}
    assert gateway.count("blazar_queue_refusals_total", reason="full") == before + 1
    assert len(gateway.child.received) == 1


@pytest.mark.parametrize("leave", [fin, reset])
@pytest.mark.parametrize("stream", [True, False])
def test_who_leaves_while_parked_leaves_no_trace(gateway, stream, leave):
    gateway.fill()
    with gateway.connect() as sock:
        sock.sendall(stream_request("ollama") if stream else stream_request("ollama").replace(
            b'"stream": true', b'"stream":false'))
        eventually(lambda: gateway.parked == 1)
        leave(sock)
    eventually(lambda: gateway.parked == 0)
    later = gateway.start()
    eventually(lambda: gateway.parked == 1)
    gateway.held.let(2)
    assert later.result().status == 200 and later.result().headers[POSITION] == "1"
    assert len(gateway.child.received) == 2


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "ollama"])
def test_who_streams_sees_its_position_and_signs_of_life(gateway, dialect):
    gateway.fill(1)
    with gateway.connect() as sock:
        sock.sendall(stream_request(dialect))
        head = read_until(sock, b"\r\n\r\n")
        assert b"X-Blazar-Queue-Position: 2\r\n" in head and head.startswith(b"HTTP/1.1 200 ")
        gateway.held.let(3)
        assert b" world" in read_all(sock)


@pytest.mark.parametrize("path", ["/v1/messages/count_tokens", "/tokenize"])
def test_tokens_are_counted_beside_any_queue(gateway, path):
    gateway.fill(2)
    gateway.child.play = lambda conversation: conversation.send(json_answer(b'{"tokens":[1,2,3],"prompt":"hi"}'))
    body = {"model": MODEL, "content": "hi", "messages": [{"role": "user", "content": "hi"}]}
    assert gateway.request("POST", path, body).status == 200


def test_the_wait_is_no_overhead_and_stands_in_the_audit_log(gateway):
    before = gateway.count("blazar_queue_seconds_sum", model=MODEL)
    first = gateway.fill()[0]
    parked = gateway.asking.submit(gateway.ask, "openai", {"X-Request-Id": "parked-1"})
    eventually(lambda: gateway.parked == 1)
    began = time.monotonic()
    eventually(lambda: time.monotonic() - began > 0.4)
    gateway.held.let(2)
    assert first.result().status == parked.result().status == 200
    assert float(parked.result().headers["x-blazar-overhead-ms"]) < 300
    log = gateway.supervisor.paths.audit_log
    line = eventually(lambda: next((one for one in log.read_text().splitlines(True)
                                    if '"parked-1"' in one and one.endswith("\n")), None))
    assert json.loads(line)["queue_ms"] > 350
    assert gateway.count("blazar_queue_seconds_sum", model=MODEL) - before > 0.35


def test_a_deadline(tmp_path):
    with Queued(tmp_path, {"queue_timeout_secs": 2, "sse_ping_interval": 1}) as gateway:
        gateway.fill()
        streams = {dialect: gateway.asking.submit(streamed, gateway, dialect) for dialect in DIALECTS}
        answers = {dialect: gateway.start(dialect, stream=False) for dialect in DIALECTS}
        for dialect in DIALECTS:
            answer = answers[dialect].result()
            assert answer.status == BUSY[dialect] and int(answer.headers["retry-after"]) >= 1
            assert re.search("server busy.*queue_timeout_secs", is_error_of(dialect, answer))
            head, _, body = streams[dialect].result().partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ") and b"server busy" in body
        assert gateway.count("blazar_queue_refusals_total", reason="timeout") == 2 * len(DIALECTS)
        eventually(lambda: gateway.parked == 0)
        gateway.held.let()
        assert len(gateway.child.received) == 1


def streamed(gateway, dialect):
    with gateway.connect() as sock:
        sock.sendall(stream_request(dialect))
        return read_all(sock)


@pytest.mark.parametrize("loaded", [True, False], ids=["a slot", "a load"])
def test_a_key_that_takes_every_place_has_to_share_them(tmp_path, loaded):
    """Whatever is waited for: the last of the greedy key gives way, told in its client's form; no place is lost."""
    with Queued(tmp_path, {"keys": KEYS, "max_queued": 4, "sse_ping_interval": 1},
                loaded=loaded) as gateway:
        gateway.supervisor.load_seconds = 0.0 if loaded else 4.0

        def ask(key, dialect="openai", **more):
            answer = gateway.asking.submit(gateway.ask, dialect, {"X-Api-Key": f"sk-{key}"}, **more)
            asked.append(answer)
            return answer

        asked = []
        if loaded:
            ask("light")
            eventually(lambda: gateway.held.held == 1)
        greedy = []
        for number, dialect in enumerate(DIALECTS):
            greedy.append(ask("light", dialect))
            eventually(lambda number=number: gateway.parked == number + 1)
        assert "max_queued" in is_error_of("openai", gateway.ask("openai", {"X-Api-Key": "sk-light"}))
        late = [ask("heavy"), ask("heavy"), ask("heavy")]
        for dialect, sent_away in zip(DIALECTS[:0:-1], greedy[:0:-1], strict=True):
            assert sent_away.result().status == BUSY[dialect] and int(sent_away.result().headers["retry-after"]) >= 1
            assert "another API key" in is_error_of(dialect, sent_away.result())
        assert gateway.parked == 4
        gateway.supervisor.load_seconds = 0.0
        gateway.held.let(100)
        assert [answer.result().status for answer in (greedy[0], *late)] == [200] * 4
        assert "Traceback" not in gateway.supervisor.log()


def counted(conversation):
    """An answer of 40 tokens that takes a moment."""
    time.sleep(0.002)
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 40}}
    conversation.send(STREAM_HEAD + chunked(*events([delta("x", finish="stop"), usage])))


def test_keys_share_a_slot_by_their_weights(tmp_path):
    with Queued(tmp_path, {"keys": KEYS}) as gateway:
        gateway.held = gateway.child.play = Held(counted)
        ended = threading.Event()

        def ask_on(key, dialect):
            while not ended.is_set():
                more = {"stream": True, "messages": [{"role": "user", "content": key}]}
                assert gateway.ask(dialect, {"Authorization": f"Bearer sk-{key}"}, **more).status == 200

        clients = [gateway.asking.submit(ask_on, key, dialect)
                   for key in ("heavy", "light") for dialect in ("openai", "anthropic", "ollama")]
        eventually(lambda: gateway.parked == 5)
        gateway.held.let(100_000)
        eventually(lambda: len(gateway.child.received) > 160, 60)
        served = ["heavy" if b"heavy" in one.body else "light" for one in list(gateway.child.received)][1:160]
        tokens = {key: gateway.tokens(key) for key in ("heavy", "light")}
        ended.set()
        for client in clients:
            client.result()
        assert gateway.held.at_once == 1
    assert served.count("heavy") / served.count("light") == pytest.approx(3, abs=0.3)
    assert tokens["heavy"] / tokens["light"] == pytest.approx(3, abs=0.4)
    assert " ".join(["heavy"] * 5) not in " ".join(served)


def crashed(gateway):
    """The child dies, and its supervisor has seen it."""
    gateway.supervisor.loaded.clear()
    gateway.child.stop()
    gateway.supervisor.push()


def test_when_the_child_dies_those_parked_go_on_to_the_next_one(tmp_path):
    with Queued(tmp_path) as gateway:
        first, *parked = gateway.fill(3)
        with ScriptedChild(hello_world) as heir:
            gateway.offer(heir, number=2)
            crashed(gateway)
            assert first.result().status == 502
            assert [answer.result().status for answer in parked] == [200, 200, 200]
            assert len(heir.received) == 3 and len(gateway.supervisor.notes("ensure_ready")) >= 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_when_there_is_no_next_one_they_are_told_why(tmp_path, dialect):
    with Queued(tmp_path) as gateway:
        gateway.fill()
        parked = gateway.start(dialect)
        eventually(lambda: gateway.parked == 1)
        gateway.supervisor.loadable.clear()
        crashed(gateway)
        assert parked.result().status == 503 and "did not load" in is_error_of(dialect, parked.result())
        eventually(lambda: gateway.parked == 0)


def test_a_child_that_is_to_go_serves_those_who_wait_for_it_first(tmp_path):
    with Queued(tmp_path) as gateway:
        answers = gateway.fill(2)
        drained = []
        gateway.supervisor.link().ask_later("drain", drained.append, child_id=f"{MODEL}#1")
        gateway.supervisor.loaded.clear()
        gateway.supervisor.push()
        began = time.monotonic()
        eventually(lambda: time.monotonic() - began > 1.5)  # longer than a tick
        assert not drained and gateway.parked == 2
        gateway.held.let(3)
        assert [answer.result().status for answer in answers] == [200, 200, 200]
        eventually(lambda: drained)
        assert not gateway.supervisor.notes("ensure_ready") and gateway.held.at_once == 1


def test_those_who_wait_for_a_load_are_bounded_too_and_cost_one_load(tmp_path):
    with Queued(tmp_path, {"max_queued": 3}, loaded=False) as gateway:
        gateway.supervisor.load_seconds = 1.0
        answers = [gateway.start() for _ in range(3)]
        eventually(lambda: gateway.parked == 3)
        assert gateway.ask("ollama").status == 503
        eventually(lambda: gateway.held.held == 1)
        eventually(lambda: gateway.parked == 2)
        gateway.held.let(3)
        assert [answer.result().status for answer in answers] == [200, 200, 200]
        assert gateway.held.at_once == 1


def test_workers_that_use_a_child_at_the_same_time_share_its_slots(tmp_path):
    with Queued(tmp_path, slots=4) as gateway:
        snapshot = gateway.supervisor.snapshot()
        gateway.supervisor.link().note("snapshot", snapshot={**snapshot, "workers": 2})
        beats = len(gateway.supervisor.notes("beat"))
        eventually(lambda: len(gateway.supervisor.notes("beat")) >= beats + 3, 30)  # whole ticks
        answers = [gateway.start() for _ in range(4)]
        eventually(lambda: gateway.parked == 2 and gateway.held.held == 2)
        gateway.supervisor.link().note("snapshot", snapshot={**snapshot, "workers": 1})
        eventually(lambda: gateway.held.held == 4)
        gateway.held.let(4)
        assert [answer.result().status for answer in answers] == [200] * 4


def test_a_stop_ends_those_parked_too(tmp_path):
    with Queued(tmp_path, grace=1.0) as gateway:
        gateway.fill()
        parked = gateway.start("anthropic")
        eventually(lambda: gateway.parked == 1)
        gateway.supervisor.process.terminate()
        assert parked.result().status == 503 and "stopping" in is_error_of("anthropic", parked.result())
