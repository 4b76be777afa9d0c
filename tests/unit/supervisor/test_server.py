import stat
import time

from blazar.control import SEND_LIMIT, connect
from blazar.supervisor.loop import Loop
from blazar.supervisor.server import ControlServer
from tests.support.waiting import until


def open_server(path):
    loop, links, closed = Loop(), [], []

    def on_message(link, message):
        links.append(link)
        link.answer(message, echo=message["kind"])

    return ControlServer(path, loop, on_message, closed.append), loop, links, closed


def test_messages_run_on_the_loop_and_answers_come_back(tmp_path):
    path = tmp_path / ("d" * 120) / "control.sock"
    path.parent.mkdir()
    path.write_text("stale")
    server, loop, _, closed = open_server(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    link, answers = connect(path), []
    link.ask_later("status", answers.append)
    loop.turn(5)
    until(lambda: answers)
    assert answers[0]["echo"] == "status"
    link.close()
    loop.turn(5)
    assert len(closed) == 1
    server.close()
    assert not path.exists()


def test_a_peer_that_does_not_read_is_dropped_and_stops_nobody(tmp_path):
    path = tmp_path / "control.sock"
    server, loop, links, closed = open_server(path)
    peer = connect(path, on_message=lambda link, message: time.sleep(60))
    peer.note("hello")
    loop.turn(5)
    began = time.monotonic()
    for _ in range(100):
        links[0].note("snapshot", filling="x" * 100_000)
    assert time.monotonic() - began < 2 * SEND_LIMIT + 1.5
    loop.turn(5)
    assert closed == [links[0]]
    server.close()
