"""When a client goes away: how soon its child's connection ends and the slot is free, with the real engine.

Four phases, streamed and buffered, three dialects; `-rP` shows the measured times. The engine notices a closed
connection by itself in the middle of a stream, and else once a second, as long as it has no result for anybody in
that second; so nothing here asks it for its slots: its own log says when one is free.
"""

import json
import os
import re
import socket
import time
from pathlib import Path

import pytest

from blazar.store.store import Store
from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import Daemon
from tests.support.real_engine import engine_path
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until

pytestmark = pytest.mark.debian

BATCH = 256
CONNECTION_LIMIT = 0.05
TRIES = 3
"""A busy machine may keep anybody waiting once; not three times in a row."""
SLOT_LIMIT = 1.5
"""Besides the time of one batch."""
LONG, SHORT = 4000, 3
"""Words of prompts; a long one keeps the engine busy for many seconds."""
ANSWER = 20_000
"""Tokens of an answer that nobody waits for."""


class Engine:
    """A daemon with one model of one slot, and what its log and its connections say."""

    def __init__(self, daemon: Daemon, model: str) -> None:
        self.daemon = daemon
        self.model = model
        self._log = daemon.paths.run / f"{model.replace(':', '%3A')}.log"
        self._asked = 0
        self.worker = daemon.status()["gateway"]["workers"][0]
        self.batch_seconds = 0.0

    # -- questions -----------------------------------------------------------------------------------------

    def ask(self, dialect: str, stream: bool, words: int) -> socket.socket:
        """Send a question that shares no beginning with any other."""
        self._asked += 1
        messages = [{"role": "user", "content": f"{self._asked:03} " + "x " * words}]
        path, body = {
            "openai": ("/v1/chat/completions", {"max_tokens": ANSWER, "temperature": 0}),
            "ollama": ("/api/chat", {"options": {"num_predict": ANSWER, "temperature": 0}}),
            "anthropic": ("/v1/messages", {"max_tokens": ANSWER, "temperature": 0}),
        }[dialect]
        data = json.dumps({"model": self.model, "messages": messages, "stream": stream, **body}).encode()
        sock = socket.create_connection(("127.0.0.1", self.daemon.port), timeout=30)
        sock.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        return sock

    def measure_batch(self) -> None:
        """Load the model, and take the time of a batch late in a long prompt, which costs most."""
        sock = self.ask("openai", True, LONG)
        try:
            self.wait_for("launch_slot_", 0)
            began, seen = time.monotonic(), self.position()
            sock.settimeout(90)
            while b"content" not in sock.recv(65536):
                pass
            self.batch_seconds = 2 * (time.monotonic() - began) / (2 * LONG / BATCH)
        finally:
            sock.close()
        self.wait_for("stop processing", seen)

    # -- what it says --------------------------------------------------------------------------------------

    def position(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    def said(self, position: int) -> str:
        return self._log.read_bytes()[position:].decode() if self._log.exists() else ""

    def wait_for(self, words: str, position: int) -> str:
        """The first line with these words after `position`."""
        return until(lambda: next((line for line in self.said(position).split("\n") if words in line), None), 30, words)

    def connections(self) -> list[Path]:
        """The gateway's descriptors of its open connections to the child."""
        port = f":{self.port:04X}"
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
        sockets = {f"socket:[{row[9]}]" for row in rows if row[2].endswith(port) and row[3] == "01"}
        return [file for file in Path(f"/proc/{self.worker}/fd").iterdir() if link(file) in sockets]

    def parked(self) -> int:
        """How many requests wait in the gateway. A page of metrics would tell it half a second late."""
        _, told = self.daemon.get("/api/requests")
        return sum(one["state"] == "queued" for one in told["requests"])

    def load(self) -> None:
        self.port = self._tell("ensure_ready")["endpoint"]["address"][1]

    def unload(self) -> None:
        self._tell("evict")

    def _tell(self, kind: str) -> dict:
        control = self.daemon.control()
        try:
            return control.ask(kind, 60, model=self.model)
        finally:
            control.close()


def link(file: Path) -> str:
    """What a descriptor stands for; empty once it is closed."""
    try:
        return os.readlink(file)
    except OSError:
        return ""


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cancellation")
    with Daemon(folder, launcher=LAUNCHER, engine_path=engine_path(), batch_size=BATCH, ubatch_size=BATCH,
                default_ctx=40_000, slots=1) as daemon:
        model = Store(daemon.paths).install_file(tiny_gguf(folder / "slow.gguf", ctx=40_000), "slow")["name"]
        engine = Engine(daemon.start(), model)
        engine.measure_batch()
        yield engine


def leave(engine: Engine, sock: socket.socket, words: str) -> tuple[float, float, str]:
    """Close; seconds until the child's connection was closed and until the engine said `words`, and that line."""
    seen, line = engine.position(), ""
    opened = {file: link(file) for file in engine.connections()}
    began = time.monotonic()
    sock.close()
    while all(link(file) == name for file, name in opened.items()):
        assert time.monotonic() - began < 30, "the child's connection stayed open"
    closed = time.monotonic() - began
    while words not in line:
        line = next((one for one in engine.said(seen).split("\n") if words in one), "")
        assert time.monotonic() - began < 30, engine.said(seen)
        time.sleep(0.002)
    return closed, time.monotonic() - began, line


def in_a_load(engine: Engine, dialect: str, stream: bool) -> tuple[float, float]:
    """The load goes on, for whoever else wants the model, and no slot is ever taken."""
    engine.unload()
    seen = engine.position()
    sock = engine.ask(dialect, stream, SHORT)
    until(lambda: engine.daemon.state(engine.model) == "starting", 10, "a load")
    sock.close()
    left_at = time.monotonic()
    until(lambda: engine.daemon.state(engine.model) == "ready", 30, "the end of the load")
    ready_after = time.monotonic() - left_at
    engine.load()
    with engine.ask(dialect, False, SHORT) as other:  # had the first one come through, this one would be the second
        first = engine.wait_for("launch_slot_", seen)
        _, _, freed = leave(engine, other, "stop processing")
    assert task(first) == task(freed) and engine.said(seen).count("launch_slot_") == 1
    print(f"nothing was sent to the child, whose load ended {ready_after:.2f} s later")
    return 0.0, 0.0


def waiting_for_a_slot(engine: Engine, dialect: str, stream: bool) -> tuple[float, float]:
    """The one slot is busy with a prompt; the waiting request leaves its place in the gateway, and never gets there."""
    engine.load()
    seen = engine.position()
    with engine.ask("openai", True, LONG) as holder:
        engine.wait_for("launch_slot_", seen)
        with engine.ask(dialect, stream, SHORT) as waiter:
            until(lambda: engine.parked() == 1, 10, "one that waits")
            began = time.monotonic()
            waiter.close()
            while engine.parked():
                assert time.monotonic() - began < 30, "its place stayed taken"
            left = time.monotonic() - began
        assert len(engine.connections()) == 1
        _, _, line = leave(engine, holder, "stop processing")
    assert task(line) == task(engine.wait_for("launch_slot_", seen)) and engine.said(seen).count("launch_slot_") == 1
    return left, 0.0


def in_the_prompt(engine: Engine, dialect: str, stream: bool) -> tuple[float, float]:
    engine.load()
    seen = engine.position()
    with engine.ask(dialect, stream, LONG) as sock:
        started = engine.wait_for("launch_slot_", seen)
        closed, freed, line = leave(engine, sock, "stop processing")
    assert task(line) == task(started) and int(re.search(r"n_tokens = (\d+)", line)[1]) < 2 * LONG
    return closed, freed


def in_the_answer(engine: Engine, dialect: str, stream: bool) -> tuple[float, float]:
    engine.load()
    seen = engine.position()
    with engine.ask(dialect, stream, SHORT) as sock:
        started = engine.wait_for("launch_slot_", seen)
        if stream:
            assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
        else:
            time.sleep(1.0)  # nothing shows from outside that the prompt of a few words is done
        closed, freed, line = leave(engine, sock, "stop processing")
    assert task(line) == task(started) and int(re.search(r"n_tokens = (\d+)", line)[1]) < ANSWER
    return closed, freed


def task(line: str) -> str:
    return re.search(r"\| task (\d+) \|", line)[1]


@pytest.mark.parametrize("dialect", ["openai", "ollama", "anthropic"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "buffered"])
@pytest.mark.parametrize("phase", [in_a_load, waiting_for_a_slot, in_the_prompt, in_the_answer],
                         ids=["load", "slot", "prompt", "answer"])
def test_a_client_that_goes_away(engine, phase, stream, dialect):
    for _ in range(TRIES):
        closed, freed = phase(engine, dialect, stream)
        if closed <= CONNECTION_LIMIT:
            break
    if phase is waiting_for_a_slot:
        print(f"its place was free after {closed * 1000:.1f} ms")
    elif phase is not in_a_load:
        print(f"child's connection closed after {closed * 1000:.1f} ms, slot free after {freed:.2f} s "
              f"(one batch: {engine.batch_seconds:.2f} s)")
    assert closed <= CONNECTION_LIMIT
    assert freed <= SLOT_LIMIT + engine.batch_seconds
