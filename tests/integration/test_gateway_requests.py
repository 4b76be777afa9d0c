"""GET /api/requests and DELETE /api/requests/ID through the running gateway: who sees what, and cancelling in every
state."""

import json
import threading
from urllib.parse import quote

import pytest

from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, is_error_of, post, read_all, read_until
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event, json_answer

KEYS = [{"name": "ann", "key": "sk-ann"}, {"name": "bob", "key": "sk-bob"}]
ANN, BOB = {"Authorization": "Bearer sk-ann"}, {"Authorization": "Bearer sk-bob"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("requests"), {"keys": KEYS}) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    shared.supervisor.load_seconds = 0.0
    return shared.fresh()


class Asked(threading.Thread):
    """A request that is asked beside the test; `answer` once it has one."""

    def __init__(self, gateway, dialect, id, key=ANN, **more):
        super().__init__(daemon=True)
        self._ask = lambda: gateway.ask(dialect, {**key, "X-Request-Id": id}, **more)
        self.answer = None
        self.start()

    def run(self):
        self.answer = self._ask()

    def whole(self):
        self.join(20)
        return self.answer


def told(gateway, key=ANN, query=""):
    answer = gateway.request("GET", f"/api/requests{query}", headers=key)
    assert answer.status == 200, answer
    return answer.json()


def row_of(gateway, id, state, key=ANN):
    """The row of a request, once it is in that state."""
    return eventually(lambda: next((row for row in told(gateway, key)["requests"]
                                    if row["id"] == id and row["state"] == state), None), 20)


def stalls(gateway, *pieces):
    """The child sends the head of a stream with these pieces and then nothing; `closed` is set when it is closed."""
    closed = threading.Event()

    def play(conversation):
        if json.loads(conversation.request.body).get("stream"):
            conversation.send(STREAM_HEAD + b"".join(chunked(event(delta(piece)), last=False) for piece in pieces))
        if conversation.client_closes(20):
            closed.set()

    gateway.child.play = play
    return closed


@pytest.mark.parametrize("dialect", ASK)
@pytest.mark.parametrize("stream", [False, True])
def test_a_running_one_is_listed_and_cancelled(gateway, dialect, stream):
    closed, id = stalls(gateway, "one", "two"), f"run-{dialect}-{stream}"
    asked = Asked(gateway, dialect, id, stream=stream)
    row = row_of(gateway, id, "running")
    sees = stream or dialect != "openai"
    row = eventually(lambda: next((row for row in told(gateway)["requests"] if row["id"] == id
                                   and row["tokens"] == (2 if sees else 0)), None), 20)
    assert row.pop("age_secs") < 60 and row.pop("client").startswith("127.0.0.1:")
    assert row == {"id": id, "key": "ann", "model": MODEL, "alias": None, "dialect": dialect, "path": ASK[dialect][0],
                   "stream": stream, "state": "running", "tokens": 2 if sees else 0}
    answer = gateway.request("DELETE", f"/api/requests/{id}", headers=ANN)
    assert (answer.status, answer.json()) == (200, {"id": id, "cancelled": 1})
    assert closed.wait(20)
    if stream:
        assert asked.whole().status == 200 and b"this request was cancelled" in asked.answer.body
    else:
        assert asked.whole().status == 410 and "this request was cancelled" in is_error_of(dialect, asked.answer)
    ended = told(gateway)["finished"][0]
    assert (ended["id"], ended["error"], ended["path"]) == (id, "request-cancelled", ASK[dialect][0])
    assert ended["status"] == (200 if stream else 410) and not ended["client_gone"]
    assert id not in {row["id"] for row in told(gateway)["requests"]}


@pytest.mark.parametrize("dialect", ASK)
def test_one_whose_child_is_about_to_refuse_it_too(gateway, dialect):
    began, id = threading.Event(), f"refused-{dialect}"

    def play(conversation):
        conversation.send(b'HTTP/1.1 400 Bad\r\nContent-Length: 99\r\n\r\n{"error":')
        began.set()
        conversation.client_closes(20)

    gateway.child.play = play
    asked = Asked(gateway, dialect, id, stream=False)
    assert began.wait(20)
    row_of(gateway, id, "running")
    assert gateway.request("DELETE", f"/api/requests/{id}", headers=ANN).status == 200
    assert asked.whole().status == 410 and "this request was cancelled" in is_error_of(dialect, asked.answer)
    assert told(gateway)["finished"][0]["error"] == "request-cancelled"


@pytest.mark.parametrize("dialect", ASK)
def test_a_loading_one_too(gateway, dialect):
    gateway.supervisor.loaded.clear()
    gateway.supervisor.push()
    gateway.supervisor.load_seconds = 1.5
    try:
        asked = Asked(gateway, dialect, f"load-{dialect}", stream=False)
        row_of(gateway, f"load-{dialect}", "loading")
        assert gateway.request("DELETE", f"/api/requests/load-{dialect}", headers=ANN).status == 200
        assert asked.whole().status == 410 and "was cancelled" in is_error_of(dialect, asked.answer)
        assert gateway.child.received == []
    finally:
        eventually(lambda: gateway.supervisor.loaded, 20)


@pytest.mark.parametrize("id", ["trace/17", "a%2Fb", "what?", "#1", "//", "{id}", "%", "x" * 128])
def test_whatever_id_a_client_chose_can_be_cancelled(gateway, id):
    stalls(gateway, "one")
    asked = Asked(gateway, "ollama", id)
    row_of(gateway, id, "running")
    answer = gateway.request("DELETE", "/api/requests/" + quote(id, safe=""), headers=ANN)
    assert (answer.status, answer.json()) == (200, {"id": id, "cancelled": 1})
    assert b"was cancelled" in asked.whole().body


def test_a_key_sees_and_cancels_its_own_only(gateway):
    closed = stalls(gateway, "one")
    asked = Asked(gateway, "openai", "of-ann", stream=True)
    row_of(gateway, "of-ann", "running")
    assert told(gateway, BOB)["requests"] == []
    answer = gateway.request("DELETE", "/api/requests/of-ann", headers=BOB)
    assert answer.status == 404 and "'of-ann' is under way here" in is_error_of("ollama", answer)
    assert not closed.is_set()
    assert gateway.request("DELETE", "/api/requests/of-ann", headers=ANN).json()["cancelled"] == 1
    asked.whole()
    assert {row["key"] for row in told(gateway, BOB)["finished"]} <= {"bob"}
    assert {row["key"] for row in told(gateway, ANN)["finished"]} == {"ann"}


def test_the_socket_of_the_data_dir_sees_all(gateway):
    closed = stalls(gateway, "one")
    asked = [Asked(gateway, "openai", "same", key, stream=True) for key in (ANN, BOB)]
    for key in (ANN, BOB):
        row_of(gateway, "same", "running", key)
    link = gateway.supervisor.link()
    rows = link.ask("requests", 10, key=None, finished=0, cancel=None)["requests"]
    assert sorted(row["key"] for row in rows) == ["ann", "bob"]
    assert link.ask("requests", 10, key=None, finished=0, cancel="same")["cancelled"] == 2
    assert all(one.whole().status == 200 for one in asked) and closed.wait(20)


def test_the_ring_has_numbers_and_no_words(gateway):
    secret = "a very private question"
    gateway.ask("openai", {**ANN, "X-Request-Id": "asked-1"}, messages=[{"role": "user", "content": secret}])
    gateway.ask("ollama", {**ANN, "X-Request-Id": "asked-2"}, stream=False)
    ended = told(gateway, query="?finished=2")["finished"]
    assert [row["id"] for row in ended] == ["asked-2", "asked-1"]
    assert {"status", "prompt_tokens", "completion_tokens", "load_ms", "first_byte_ms", "total_ms"} <= set(ended[0])
    assert secret not in json.dumps(told(gateway))
    assert told(gateway, query="?finished=0")["finished"] == []
    assert gateway.request("GET", "/api/requests?finished=513", headers=ANN).status == 400


def test_without_a_supervisor_the_gateway_tells_its_own(tmp_path):
    with GatewayUnderTest(tmp_path) as gateway:
        gateway.supervisor.close_control()
        gateway.child.play = lambda conversation: conversation.send(json_answer(b'{"choices":[]}'))
        gateway.ask("openai", {"X-Request-Id": "alone"})
        eventually(lambda: [row["id"] for row in told(gateway, {})["finished"]] == ["alone"], 20)


def test_a_stream_that_ends_with_its_connection_tells_that_it_was_cancelled(gateway):
    def play(conversation):
        conversation.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + event(delta("one")))
        conversation.client_closes(20)

    gateway.child.play = play
    path, body = ASK["openai"]
    with gateway.connect() as sock:
        sock.settimeout(20)
        sock.sendall(post(path, json.dumps({**body, "stream": True}).encode(), "Authorization: Bearer sk-ann",
                          "X-Request-Id: unframed"))
        read_until(sock, b"one")
        assert gateway.request("DELETE", "/api/requests/unframed", headers=ANN).status == 200
        left = read_all(sock)
        assert b'data: {"error":' in left and b"request-cancelled" in left, left
