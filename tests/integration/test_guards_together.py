"""What waits for a slot while something else happens to it: identical requests, cancelling, a wedged child, what is kept."""

import json
import time

import pytest

from tests.support.fake_supervisor import FakeSupervisor, endpoint, eventually
from tests.support.gateway_under_test import ASK, MODEL, is_error_of, post, read_all, read_until
from tests.support.queued import Held, Queued, stream_request
from tests.support.scripted_child import ScriptedChild, hello_world

DIALECTS = list(ASK)
SHARED = ("openai", "ollama", "anthropic")
"""Those whose chats are shared."""
OTHER = [{"role": "user", "content": "something else"}]
ENDS = {"openai": (b'data: {"error":{"message":"', b"[DONE]"), "ollama": (b'\n{"error":"', b'"done":true'),
        "anthropic": (b'event: error\ndata: {"type":"error"', b"message_stop"),
        "responses": (b"event: response.failed\n", b"response.completed")}
"""How an error is told in a stream, and what a whole one has."""


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
    assert 4 < time.monotonic() - began
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
    assert leader.result().status == 499 or leader.result().status >= 400
    eventually(lambda: gateway.parked == 1)
    gateway.held.let(2)
    assert (busy.result().status, follower.result().status) == (200, 200)
    assert "x-blazar-coalesced" not in follower.result().headers
