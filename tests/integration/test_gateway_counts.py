"""What the gateway says of its own work: /metrics, the audit log, token counts of every lane, and its overhead."""

import json
import re
import threading
import time

import pytest

from tests.support import exposition
from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, post, read_until
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event, json_answer

DIALECTS = list(ASK)
TIMINGS = {"cache_n": 4, "prompt_n": 7, "prompt_ms": 1.5, "predicted_n": 3, "predicted_ms": 20.0}
COUNTED = [delta("", role="assistant"), delta("one"), delta(" two"), {**delta(finish="stop"), "timings": TIMINGS}]
KEYS = [{"name": "ann", "key": "sk-ann"}, {"name": "bob", "key": "sk-bob"}]
ANN, BOB = {"Authorization": "Bearer sk-ann"}, {"Authorization": "Bearer sk-bob"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("counts"), {"keys": KEYS}) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


def counted(conversation):
    """An answer whose child tells its timings and was not asked for usage."""
    if json.loads(conversation.request.body).get("stream"):
        conversation.send(STREAM_HEAD + chunked(*map(event, COUNTED), b"data: [DONE]\n\n"))
    else:
        conversation.send(json_answer(json.dumps({"choices": [{"message": {"content": "one two"}}],
                                                  "timings": TIMINGS}).encode()))


def metrics(gateway, headers=ANN):
    answer = gateway.request("GET", "/metrics", headers=headers)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    return exposition.read(answer.body.decode())


def audit(gateway):
    return [json.loads(line) for line in gateway.supervisor.paths.audit_log.read_text().splitlines()]


def last_line(gateway, request_id):
    return eventually(lambda: [line for line in audit(gateway) if line["id"] == request_id], what=request_id)[-1]


def rise(before, after, name, **labels):
    return exposition.value(after, name, **labels) - exposition.value(before, name, **labels)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_lane_counts_the_same_tokens_and_says_so_everywhere(gateway, dialect, stream):
    gateway.child.play = counted
    before = metrics(gateway)
    request_id = f"count-{dialect}-{stream}"
    answer = gateway.ask(dialect, {**ANN, "X-Request-Id": request_id}, stream=stream)
    assert answer.status == 200
    line, after = last_line(gateway, request_id), metrics(gateway)
    path = {"openai": "chat", "ollama": "chat", "anthropic": "messages", "responses": "create"}[dialect]
    assert rise(before, after, "blazar_prompt_tokens_total", key="ann", model=MODEL) == 11
    assert rise(before, after, "blazar_completion_tokens_total", key="ann", model=MODEL) == 3
    for name in ("blazar_requests_total", "blazar_generations_total"):
        assert rise(before, after, name, dialect=dialect, operation=path, status="2xx") == 1
    for name in ("queue", "first_byte", "overhead"):
        assert rise(before, after, f"blazar_{name}_seconds_count") == 1
    assert exposition.value(after, "blazar_requests_in_flight") == 0
    total = line.pop("total_ms")
    assert 0 < line.pop("first_byte_ms") <= total < 10_000
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line.pop("time"))
    assert line == {"id": request_id, "key": "ann", "dialect": dialect, "operation": path, "asked": MODEL,
                    "alias": None, "model": MODEL, "stream": stream, "status": 200, "error": None, "client_gone": False,
                    "prompt_tokens": 11, "completion_tokens": 3, "estimated": False, "truncated": False,
                    "structure": None, "coalesced": False, "cache": None, "load_ms": 0.0, "queue_ms": 0.0}


def test_the_pace_of_a_stream_is_seen(gateway):
    arrived = threading.Semaphore(0)

    def slowly(conversation):
        conversation.send(STREAM_HEAD)
        for one in COUNTED:
            conversation.send(chunked(event(one), last=False))
            assert arrived.acquire(timeout=10)
            time.sleep(0.03)
        conversation.send(chunked(b"data: [DONE]\n\n"))

    gateway.child.play = slowly
    before = metrics(gateway)
    path, body = ASK["openai"]
    with gateway.connect() as sock:
        sock.sendall(post(path, json.dumps({**body, "stream": True}).encode(), "X-Api-Key: sk-ann"))
        for _ in COUNTED:
            read_until(sock, b"\n\n\r\n")
            arrived.release()
        read_until(sock, b"0\r\n\r\n")
    after = metrics(gateway)
    assert rise(before, after, "blazar_inter_token_seconds_count", model=MODEL) == len(COUNTED)
    assert rise(before, after, "blazar_inter_token_seconds_bucket", model=MODEL, le="0.025") == 0
    assert rise(before, after, "blazar_inter_token_seconds_bucket", model=MODEL, le="1.0") == len(COUNTED)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_client_that_leaves_is_charged_for_what_was_made(gateway, dialect):
    def on_and_on(conversation):
        conversation.send(STREAM_HEAD)
        for _ in range(20):
            conversation.send(chunked(event(delta("word")), last=False))
        conversation.client_closes()

    gateway.child.play = on_and_on
    before = metrics(gateway)
    path, body = ASK[dialect]
    sent = json.dumps({**body, "stream": True}).encode()
    with gateway.connect() as sock:
        sock.sendall(post(path, sent, "Authorization: Bearer sk-bob", f"X-Request-Id: left-{dialect}"))
        for _ in range(20):
            read_until(sock, b"word")
            break
    line, after = last_line(gateway, f"left-{dialect}"), metrics(gateway)
    assert (line["client_gone"], line["status"], line["error"], line["estimated"]) == (True, 200, None, True)
    assert line["prompt_tokens"] == len(sent) // 4
    assert 1 <= line["completion_tokens"] <= 20
    assert rise(before, after, "blazar_completion_tokens_total", key="bob") == line["completion_tokens"]
    assert rise(before, after, "blazar_client_disconnects_total") == 1


def test_a_client_that_leaves_while_its_prompt_is_read_is_charged_for_it(gateway):
    gateway.child.play = lambda conversation: conversation.client_closes()
    path, body = ASK["openai"]
    sent = json.dumps(body).encode()
    with gateway.connect() as sock:
        sock.sendall(post(path, sent, "X-Api-Key: sk-bob", "X-Request-Id: left-early"))
        eventually(lambda: gateway.child.received)
    line = last_line(gateway, "left-early")
    assert (line["client_gone"], line["status"], line["first_byte_ms"]) == (True, 499, None)
    assert (line["prompt_tokens"], line["completion_tokens"]) == (len(sent) // 4, 0)


def refuse(conversation):
    conversation.send(json_answer(b'{"error":{"message":"too long","code":400}}', "400 Bad Request"))


@pytest.mark.parametrize(("dialect", "more", "play", "status", "slug", "model"), [
    ("openai", {"model": "nope"}, counted, 404, "model-not-found", None),
    ("ollama", {"best_of": 2}, counted, 400, "knob-refused", MODEL),
    ("anthropic", {}, lambda conversation: conversation.close(), 502, "child-failed", MODEL),
    ("ollama", {}, refuse, 400, "child-refused", MODEL),
    ("openai", {}, refuse, 400, None, MODEL),
])
def test_what_failed_is_noted_and_charged_nothing(gateway, dialect, more, play, status, slug, model):
    gateway.child.play = play
    request_id = f"failed-{dialect}-{slug}"
    before = metrics(gateway)
    assert gateway.ask(dialect, {**BOB, "X-Request-Id": request_id}, **more).status == status
    line, after = last_line(gateway, request_id), metrics(gateway)
    assert (line["status"], line["error"], line["model"]) == (status, slug, model)
    assert (line["prompt_tokens"], line["completion_tokens"], line["client_gone"]) == (0, 0, False)
    assert rise(before, after, "blazar_prompt_tokens_total") == 0
    assert rise(before, after, "blazar_generations_total", dialect=dialect, status=f"{status // 100}xx") == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_that_breaks_off_is_noted_with_its_cause(gateway, dialect):
    def break_off(conversation):
        conversation.send(STREAM_HEAD + chunked(event(delta("one")), event(delta("two")), last=False))
        conversation.close()

    gateway.child.play = break_off
    gateway.ask(dialect, {**ANN, "X-Request-Id": f"broke-{dialect}"}, stream=True)
    line = last_line(gateway, f"broke-{dialect}")
    assert (line["status"], line["error"], line["client_gone"]) == (200, "child-failed", False)
    assert line["estimated"] and line["completion_tokens"] == 2


def test_a_stale_connection_is_counted_as_a_retry(gateway):
    before = metrics(gateway)
    gateway.ask("openai", ANN, stream=False)
    seen = []

    def close_once(conversation):
        seen.append(conversation)
        if len(seen) == 1:
            conversation.close()
        else:
            counted(conversation)

    gateway.child.play = close_once
    assert gateway.ask("openai", ANN, stream=False).status == 200
    assert rise(before, metrics(gateway), "blazar_retries_total") == 1


def test_other_requests_are_counted_but_not_audited(gateway):
    lines, before = len(audit(gateway)), metrics(gateway)
    gateway.request("GET", "/v1/models", headers=ANN)
    gateway.request("GET", "/api/tags")
    gateway.request("GET", "/nowhere", headers=ANN)
    after = metrics(gateway)
    assert rise(before, after, "blazar_requests_total", dialect="openai", operation="models.openai_list",
                status="2xx") == 1
    assert rise(before, after, "blazar_requests_total", dialect="ollama", operation="models.tags", status="4xx") == 1
    assert rise(before, after, "blazar_requests_total", operation="none", status="4xx") == 1
    assert len(audit(gateway)) == lines


def test_metrics_need_a_key_when_there_are_keys(gateway):
    assert gateway.request("GET", "/metrics").status == 401


def test_no_prompt_no_answer_and_no_secret_is_ever_in_the_audit_log(gateway):
    gateway.child.play = counted
    for dialect in DIALECTS:
        gateway.ask(dialect, ANN, messages=[{"role": "user", "content": "my-very-own-words"}])
    gateway.ask("openai", ANN, model="x" * 5000)
    eventually(lambda: audit(gateway)[-1]["status"] in (400, 404))
    text = gateway.supervisor.paths.audit_log.read_text()
    for word in ("my-very-own-words", "one two", "sk-ann", "s3cret", "x" * 201):
        assert word not in text, word
    assert max(map(len, text.splitlines())) < 1200


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_overhead_leaves_out_what_the_child_takes(gateway, dialect, stream):
    def after_a_while(conversation):
        time.sleep(0.5)
        counted(conversation)

    gateway.child.play = after_a_while
    answer = gateway.ask(dialect, ANN, stream=stream)
    assert re.fullmatch(r"\d+\.\d{3}", answer.headers["x-blazar-overhead-ms"])
    assert 0 < float(answer.headers["x-blazar-overhead-ms"]) < 400


def test_a_load_is_waiting_and_no_overhead(tmp_path):
    with GatewayUnderTest(tmp_path, loaded=False) as gateway:
        gateway.supervisor.load_seconds = 0.5
        answer = gateway.ask("openai", {"X-Request-Id": "loads"}, stream=False)
        assert float(answer.headers["x-blazar-overhead-ms"]) < 400
        found = metrics(gateway, {})
        assert exposition.value(found, "blazar_load_seconds_sum", model=MODEL) >= 0.5
        assert exposition.value(found, "blazar_queue_seconds_sum", model=MODEL) >= 0.5
        line = last_line(gateway, "loads")
        assert line["load_ms"] >= 500 and line["key"] is None
        assert exposition.value(found, "blazar_prompt_tokens_total", key="") == line["prompt_tokens"] > 0


def test_without_a_place_to_write_requests_go_on(tmp_path):
    with GatewayUnderTest(tmp_path) as gateway:
        eventually(gateway.supervisor.paths.audit_log.exists)
        gateway.supervisor.paths.audit_log.unlink()
        gateway.supervisor.paths.log.rmdir()
        eventually(lambda: "no audit line can be written" in gateway.supervisor.log())
        assert [gateway.ask("openai").status for _ in range(3)] == [200] * 3
        assert exposition.value(metrics(gateway, {}), "blazar_audit_lost_total") == 3
        assert gateway.supervisor.log().count("no audit line can be written") == 1
        gateway.supervisor.paths.log.mkdir()
        eventually(gateway.supervisor.paths.audit_log.exists)
        gateway.ask("openai", {"X-Request-Id": "back"})
        assert last_line(gateway, "back")["status"] == 200


def test_the_audit_log_can_be_switched_off(tmp_path):
    with GatewayUnderTest(tmp_path, {"audit_log": False}) as gateway:
        assert gateway.ask("openai").status == 200
        assert not gateway.supervisor.paths.audit_log.exists()
