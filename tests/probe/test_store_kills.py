"""kill -9 of the supervisor while models are made, sent, copied and removed: what the next one finds is whole."""

import contextlib
import hashlib
import http.client
import json
import os
import random
import sqlite3
import threading
import time

import pytest

from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import Daemon
from tests.support.raw_gguf import gguf_bytes
from tests.support.stub_model import install_stub
from tests.support.waiting import until

ROUNDS = int(os.environ.get("KILLS", "3"))


@pytest.fixture
def daemon(tmp_path):
    with Daemon(tmp_path, tuple(LAUNCHER)) as daemon:
        install_stub(daemon.paths, "solo", tmp_path)
        yield daemon


def ask(daemon, method, path, body):
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=20)
    try:
        connection.request(method, path, body if isinstance(body, bytes) else json.dumps(body).encode())
        return connection.getresponse().status
    finally:
        connection.close()


def keep_busy(daemon, number, ended):
    """Send a file, make a model of it, copy and remove it, until the daemon is gone."""
    for turn in range(10_000):
        content = gguf_bytes({"general.name": f"m{number}-{turn}"}, elements=30_000)
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        with contextlib.suppress(OSError, http.client.HTTPException):
            ask(daemon, "POST", f"/api/blobs/{digest}", content)
            ask(daemon, "POST", "/api/create", {"model": f"m{number % 2}", "files": {"a.gguf": digest}})
            ask(daemon, "POST", "/api/copy", {"source": f"m{number % 2}", "destination": f"c{number}"})
            ask(daemon, "DELETE", "/api/delete", {"model": f"c{number - 1}"})
        if ended.is_set():
            return


def assert_whole(paths):
    """Every name has its files, with the content that their names tell; nothing else is there."""
    database = sqlite3.connect(paths.database)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    wanted = {file["digest"] for (files,) in database.execute("SELECT files FROM installed_model")
              for file in json.loads(files)}
    database.close()
    found = {file.stem: hashlib.sha256(file.read_bytes()).hexdigest() for file in paths.blobs.glob("*.gguf")}
    assert found == {digest: digest for digest in wanted}
    assert list(paths.incoming.iterdir()) == []
    for file in paths.uploads.iterdir():
        assert hashlib.sha256(file.read_bytes()).hexdigest() == file.name


@pytest.mark.debian
def test_whatever_was_under_way_is_whole_or_gone(daemon):
    chance = random.Random(5)
    for _ in range(ROUNDS):
        daemon.start()
        ended = threading.Event()
        clients = [threading.Thread(target=keep_busy, args=(daemon, number, ended)) for number in range(6)]
        for client in clients:
            client.start()
        time.sleep(chance.uniform(0.2, 1.2))
        daemon.kill()
        ended.set()
        for client in clients:
            client.join()
        until(lambda: not daemon.tree(), 10, "the gateway to go")
        daemon.start()
        assert_whole(daemon.paths)
        assert ask(daemon, "GET", "/api/tags", b"") == 200
        assert daemon.stop() == 0
