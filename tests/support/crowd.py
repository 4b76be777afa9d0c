"""64 clients that stream from the stub engine, in three dialects, and what became of each: whole, told, or cut."""

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.support.daemon import Daemon
from tests.support.soak.questions import PATHS, Outcome, Question, ask

WORDS = [f"w{number} " for number in range(24)]
TEXT = "".join(WORDS)
PAUSE = 0.04
"""Seconds between two words, so an answer takes one."""
SCENARIO: dict[str, Any] = {"pause": PAUSE, "chunks": [
    f"data: {json.dumps(event)}\n\n" for event in (
        *({"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]} for word in WORDS),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": len(WORDS)}})] + ["data: [DONE]\n\n"]}
"""For the stub engine: a stream that says when it is whole."""
STREAMS = 64
VISIBLE = ("whole", "refused", "told", "cut")
"""How a stream may end under faults: each shows the client that its answer is not whole, or the answer is."""


class Crowd:
    """`with Crowd(daemon, model) as crowd:` asks from the beginning of the block; at its end all have an outcome."""

    rounds = 0
    """Crowds so far: no question is asked twice, since one answer would serve both."""

    def __init__(self, daemon: Daemon, model: str, stored: int = 0) -> None:
        """`stored` more clients ask for responses, which are to be kept."""
        Crowd.rounds += 1
        self.outcomes: list[Outcome] = []
        self.kept: dict[str, Any] = {}
        """Responses whose clients were told that they are kept, by id."""
        self._daemon, self._model = daemon, model
        self._pool = ThreadPoolExecutor(STREAMS + stored)
        self._stored = stored
        self._lock = threading.Lock()

    def __enter__(self) -> "Crowd":
        dialects = list(PATHS)
        for number in range(STREAMS):
            question = Question(dialects[number % len(dialects)], True, self._model, f"{Crowd.rounds}/{number}", 50)
            self._pool.submit(self._ask, question)
        for number in range(self._stored):
            self._pool.submit(self._store, f"{Crowd.rounds}/s{number}")
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def _ask(self, question: Question) -> None:
        outcome = ask(self._daemon.port, question, self._daemon.key)
        with self._lock:
            self.outcomes.append(outcome)

    def _store(self, text: str) -> None:
        try:
            status, answer = self._daemon.post("/v1/responses", {"model": self._model, "input": text})
        except (OSError, ValueError):
            return
        if status == 200:
            with self._lock:
                self.kept[answer["id"]] = answer

    def kinds(self) -> Counter[str]:
        return Counter(outcome.kind for outcome in self.outcomes)

    def silently_cut(self) -> list[Outcome]:
        """Outcomes that would deceive a client: there must be none."""
        return [outcome for outcome in self.outcomes
                if outcome.kind not in VISIBLE or (outcome.kind == "whole" and outcome.text != TEXT)]
