"""The clients of the soak: some ask and read to the end, some leave, at every moment that there is for leaving."""

import json
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tests.support.soak.questions import PATHS, PROMPTS, Outcome, Question, ask

TOKENS = (5, 14, 50)
LONG = 1500
"""Words of a prompt that takes the engine a moment."""
ENDLESS = 2000
"""Tokens of an answer that nobody waits for."""
ABRUPT = struct.pack("ii", 1, 0)
"""SO_LINGER for a close with a reset."""
PATIENT = 3.0
"""Seconds after which one leaves at the latest."""
TURN = 4.0
"""Seconds after which another model is the favourite."""


@dataclass(frozen=True)
class Asked:
    """A request that was waited for; times are CLOCK_MONOTONIC."""

    question: Question
    key: str
    began: float
    ended: float
    outcome: Outcome


class Clients:
    """`count` threads; `asked` and `left` are what they have done so far."""

    def __init__(self, port: int, models: list[str], keys: list[str], seed: int, count: int) -> None:
        self.asked: list[Asked] = []
        self.left: Counter[str] = Counter()
        self._port = port
        self._models = models
        self._keys = keys
        self._seed = seed
        self._count = count
        self._round = 0
        self._leavings: dict[str, Callable[[random.Random, socket.socket, bytes], None]] = {
            "in a stream": _in_a_stream, "waiting for a buffered answer": _soon, "in the prompt": _soon,
            "in a load": _soon, "with half a request sent": _half}

    def run(self, seconds: float) -> None:
        """Until the time is over and everybody has their answer."""
        self._round += 1
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=self._client, args=(number, end)) for number in range(self._count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _client(self, number: int, end: float) -> None:
        chance = random.Random(f"{self._seed}/client/{self._round}/{number}")
        while time.monotonic() < end:
            key = chance.choice(self._keys)
            if chance.random() < 0.3:
                self._leave(chance, key)
            else:
                question = self._question(chance, chance.choice(PROMPTS), chance.choice(TOKENS))
                began = time.monotonic()
                outcome = ask(self._port, question, key)
                self.asked.append(Asked(question, key, began, time.monotonic(), outcome))
                if outcome.kind == "refused":
                    time.sleep(chance.uniform(0.05, 0.3))  # as a client that was told to come back

    def _question(self, chance: random.Random, prompt: str, tokens: int, stream: bool | None = None) -> Question:
        place = int(time.monotonic() / TURN) + chance.choice((0, 0, 0, 1, 1, 2))
        return Question(chance.choice(list(PATHS)), chance.random() < 0.6 if stream is None else stream,
                        self._models[place % len(self._models)], prompt, tokens)

    def _leave(self, chance: random.Random, key: str) -> None:
        kind = chance.choice(list(self._leavings))
        prompt = f"{chance.random()} " + "x " * (LONG if kind == "in the prompt" else 3)
        stream = {"in a stream": True, "waiting for a buffered answer": False}.get(kind)
        question = self._question(chance, prompt, ENDLESS, stream)
        body = json.dumps(question.body()).encode()
        fields = "".join(f"{name}: {value}\r\n" for name, value in question.head(key).items())
        data = (f"POST {PATHS[question.dialect]} HTTP/1.1\r\nHost: localhost\r\n{fields}"
                f"Content-Length: {len(body)}\r\n\r\n").encode() + body
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=PATIENT) as sock:
            self._leavings[kind](chance, sock, data)
            if chance.random() < 0.5:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABRUPT)
        self.left[kind] += 1


def _in_a_stream(chance: random.Random, sock: socket.socket, data: bytes) -> None:
    sock.sendall(data)
    for _ in range(chance.randint(1, 4)):
        sock.recv(65536)


def _soon(chance: random.Random, sock: socket.socket, data: bytes) -> None:
    sock.sendall(data)
    time.sleep(chance.choice((0.0, 0.02, 0.1, 0.4, 1.0)))


def _half(chance: random.Random, sock: socket.socket, data: bytes) -> None:
    sock.sendall(data[:chance.randrange(1, len(data))])
    time.sleep(chance.choice((0.0, 0.05)))
