"""The gateway's end of the control connection, against a raw socket that says what a test wrote down."""

import json
import socket
import threading

from blazar.control import short_socket_path
from blazar.proxy.directory import Directory
from blazar.proxy.ledger import Ledger
from blazar.proxy.supervisor import Supervisor
from tests.support.waiting import until

GREETING = {"reply_to": 1, "config": {}, "version": "1", "usage": {"day": "2026-01-01", "tokens": {}},
            "snapshot": {"models": {"old:q4": {}}}}
PUSH = {"kind": "snapshot", "snapshot": {"models": {"new:q4": {}}}}


def models_after_the_greeting(listener, path):
    """What the directory holds when greeting and push have come in one go."""
    def greet() -> None:
        theirs, _ = listener.accept()
        with theirs:
            theirs.recv(4096)
            theirs.sendall(b"".join(json.dumps(line).encode() + b"\n" for line in (GREETING, PUSH)))
            done.wait(10)

    done = threading.Event()
    threading.Thread(target=greet, daemon=True).start()
    directory = Directory()
    assert Supervisor(path, directory, Ledger()).start() == {}
    until(lambda: "new:q4" in directory.models, 5)
    done.set()
    return list(directory.models)


def test_a_snapshot_right_behind_the_greeting_is_the_one_that_stays(tmp_path):
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        with short_socket_path(path) as address:
            listener.bind(address)
        listener.listen()
        for _ in range(20):  # who comes first is up to the threads
            assert models_after_the_greeting(listener, path) == ["new:q4"]
