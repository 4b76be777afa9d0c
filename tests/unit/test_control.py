"""Two ends of a control connection, over a real socket pair."""

import json
import os
import queue
import socket
import threading

import pytest

from blazar.control import MAX_LINE, MESSAGES, Link, connect, short_socket_path
from blazar.errors import LinkClosed, ModelNotFound, SupervisorGone


@pytest.fixture
def ends():
    """(a link, its peer link, the queue of what the peer was told)."""
    left, right = socket.socketpair()
    told = queue.SimpleQueue()
    a = Link(left, lambda link, message: None).start()
    b = Link(right, lambda link, message: told.put(message)).start()
    yield a, b, told
    a.close()
    b.close()


def test_a_question_gets_its_answer(ends):
    a, b, told = ends
    got = []
    asker = threading.Thread(target=lambda: got.append(a.ask("ensure_ready", 5, model="solo:q4_0")))
    asker.start()
    message = told.get(timeout=5)
    assert (message["kind"], message["model"]) == ("ensure_ready", "solo:q4_0")
    b.answer(message, endpoint={"pid": 7})
    asker.join(5)
    assert got[0]["endpoint"] == {"pid": 7}


def test_answers_find_their_questions_in_any_order(ends):
    a, b, told = ends
    answers = queue.SimpleQueue()
    for number in range(50):
        a.ask_later("usage", answers.put, number=number)
    asked = [told.get(timeout=5) for _ in range(50)]
    for message in reversed(asked):
        b.answer(message, number=message["number"])
    assert [answers.get(timeout=5)["number"] for _ in range(50)] == list(range(49, -1, -1))


def test_a_refusal_arrives_as_the_same_error(ends):
    a, b, told = ends
    threading.Thread(target=lambda: b.refuse(told.get(timeout=5), ModelNotFound(name="x", near=""))).start()
    with pytest.raises(ModelNotFound, match="'x' not found"):
        a.ask("describe", 5, model="x")


def test_no_answer_in_time_is_said(ends):
    with pytest.raises(SupervisorGone, match="`usage`"):
        ends[0].ask("usage", 0.05)


def test_a_closed_connection_ends_what_waits_and_what_comes_after(ends):
    a, b, told = ends
    refused = queue.SimpleQueue()
    a.ask_later("usage", refused.put)
    told.get(timeout=5)
    b.close()
    assert refused.get(timeout=5) is None
    with pytest.raises(LinkClosed):
        a.ask("usage", 5)
    a.note("beat")


def test_messages_may_come_in_any_pieces_and_large():
    left, right = socket.socketpair()
    told, closed = queue.SimpleQueue(), threading.Event()
    Link(left, lambda link, message: told.put(message), lambda link: closed.set()).start()
    big = {"kind": "snapshot", "snapshot": {"x": "é" * 300_000}}
    wire = json.dumps({"kind": "beat"}).encode() + b"\n" + json.dumps(big).encode() + b"\n"
    for start in range(0, len(wire), 70_001):
        right.sendall(wire[start:start + 70_001])
    assert told.get(timeout=5) == {"kind": "beat"}
    assert told.get(timeout=5) == big
    right.close()
    assert closed.wait(5)


@pytest.mark.parametrize("wire", [
    b"nonsense\n", b"[1]\n", b'"x"\n', b"\xff\xfe\n", b"[" * 60_000 + b"\n", b"5\n", b"null\n", b"{}\n",
    b'{"reply_to":[]}\n', b'{"kind":[]}\n', b'{"kind":1}\n',
])
def test_nonsense_closes_the_connection_and_kills_nothing(wire):
    left, right = socket.socketpair()
    closed = threading.Event()
    Link(left, lambda link, message: None, lambda link: closed.set()).start()
    right.sendall(wire)
    assert closed.wait(5)
    right.close()


def test_a_peer_that_reads_nothing_cannot_stop_us():
    left, right = socket.socketpair()
    closed = threading.Event()
    link = Link(left, lambda link, message: None, lambda link: closed.set()).start()
    for _ in range(100):
        link.note("snapshot", snapshot="x" * 100_000)
    assert closed.wait(5)
    right.close()


def test_an_endless_line_is_cut():
    left, right = socket.socketpair()
    closed = threading.Event()
    Link(left, lambda link, message: None, lambda link: closed.set()).start()
    sent = 0
    with pytest.raises(OSError):
        while sent < 4 * MAX_LINE:
            sent += right.send(b"x" * 65536)
    assert sent < 2 * MAX_LINE
    assert closed.wait(5)


def test_a_socket_deep_in_the_tree_is_still_reached(tmp_path):
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    listener = socket.socket(socket.AF_UNIX)
    with short_socket_path(deep / "control.sock") as address:
        assert len(address) < 100
        listener.bind(address)
    listener.listen()
    connect(deep / "control.sock").close()
    listener.close()


def test_nobody_listening_is_said_in_words(tmp_path):
    with pytest.raises(SupervisorGone):
        connect(tmp_path / "control.sock")
    with pytest.raises(SupervisorGone):
        connect(tmp_path / "missing" / "control.sock")


def test_no_descriptor_is_lost(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(SupervisorGone):
            connect(tmp_path / "control.sock")
    assert len(os.listdir("/proc/self/fd")) <= before


def test_each_message_is_declared_with_its_sender():
    for kind, (sender, fields, answer) in MESSAGES.items():
        assert kind.islower() and sender and isinstance(fields, str) and (answer is None or isinstance(answer, str))
