"""One soak: a daemon with three models and room for two, clients and faults around it, and what must hold after it."""

import json
import os
import re
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from blazar.errors import BlazarError
from blazar.store.store import Store
from blazar.supervisor import processes
from blazar.supervisor.gateway import LAUNCHER
from blazar.transport import Endpoint
from tests.support.daemon import DAEMONS
from tests.support.real_engine import engine_path
from tests.support.soak.clients import TOKENS, Asked, Clients
from tests.support.soak.expected import Expected, exchange
from tests.support.soak.faults import GATEWAY, Fault, Faults
from tests.support.soak.questions import PROMPTS, Question, ask
from tests.support.soak.watch import Curve, Held, Watcher, settled
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until

MODELS = {"red": "off", "green": "off", "blue": "auto"}
"""Whether the engine guesses ahead; where it does, few answers can be compared."""
KEYS = {"sk-ann": 2, "sk-bob": 3, "sk-eve": 6}
"""API keys, and how many requests each may have under way."""
CLIENTS = 6
SHARES = (0.2, 0.45, 0.35)
"""Of the time: warming up, everything, and everything but kills of the gateway, so that its memory can be followed."""
FULL = 30.0
"""Seconds from which on faults keep their full distance; a shorter soak has them closer together."""
GROWTH = 3.0
"""MiB by which a process may grow in the measured time."""
SPARE = 1
"""Descriptors and threads that may just be on their way."""
EXACT = {"cache_type_k": "f32", "cache_type_v": "f32"}
"""With less, the rounding of one slot's neighbours may turn a greedy choice, and texts could not be compared."""
ALLOWED = (429, 502, 503, 504)
"""Statuses of a refusal."""
REST = 20.0
"""Seconds in which everything must have come to rest once the clients are done."""
LAST = 30
"""Lines of the daemon's log that are shown when it does not answer."""
EVERY_KEY = 3
"""A request of the last check answers so many tokens."""


class Course:
    """`with Course(folder, ...) as course:`; after `run`, `wrong` is what did not hold, `figures()` the rest."""

    def __init__(self, folder: Path, transport: str, seed: int) -> None:
        keys = [{"name": key.removeprefix("sk-"), "key": key, "max_concurrent": most} for key, most in KEYS.items()]
        extra = {name: {"extra_args": ["--threads", "1"], "spec": spec} for name, spec in MODELS.items()}
        self.daemon = DAEMONS[transport](
            folder, tuple(LAUNCHER), engine_path=engine_path(), max_loaded_models=2, slots=2, default_ctx=4096,
            child_header_timeout_secs=10, model_load_timeout_secs=60, keys=keys, model_overrides=extra, **EXACT)
        store = Store(self.daemon.paths)
        files = [tiny_gguf(folder / f"{name}.gguf", seed=seed + number) for number, name in enumerate(MODELS)]
        self.models = [store.install_file(file, file.stem)["name"] for file in files]
        self.daemon.start()
        self.clients = Clients(self.daemon.port, self.models, list(KEYS), seed, CLIENTS)
        self.made = Faults(self.daemon, seed)
        self.curves: list[Curve] = []
        self.wrong: list[str] = []
        self._expected = Expected()
        self._held: dict[str, list[Held]] = {"supervisor": [], "gunicorn": [], "worker": []}

    def __enter__(self) -> "Course":
        return self

    def __exit__(self, *_: object) -> None:
        self.daemon.__exit__()

    def run(self, seconds: float) -> None:
        """All phases, a rest after each, and the last checks."""
        try:
            self._learn()
            for number, share in enumerate(SHARES):
                self._phase(share * seconds, min(1.0, seconds / FULL), gateway=number < 2)
                self._rest()
        except Exception as error:
            last = self.daemon.log().splitlines()[-LAST:]
            self.wrong.append("\n".join([f"it could not go on: {error!r}; the daemon's log ends with:", *last]))
        self._judge_all()
        self._end()

    def _phase(self, seconds: float, pace: float, gateway: bool) -> None:
        workers = self.daemon.status()["gateway"]["workers"]
        with Watcher([("supervisor", self.daemon.process.pid), ("worker", workers[0])]) as watcher:
            self.made.start(pace, gateway)
            try:
                self.clients.run(seconds)
            finally:
                self.made.stop()
        self.curves = watcher.curves

    # -- what the engine itself says -----------------------------------------------------------------------

    def _learn(self) -> None:
        """The greedy answers of each model, asked of the engine without the gateway."""
        for model in self.models:
            control = self.daemon.control()
            endpoint = Endpoint.from_dict(control.ask("ensure_ready", 60, model=model)["endpoint"])
            control.close()
            for prompt in PROMPTS:
                self._expected.learn(endpoint, model, prompt, TOKENS)

    # -- a rest ---------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        """Nobody asks: every slot is idle, nothing is under way, each API key has all its places, models unload."""
        self.wrong += self.made.wrong
        self.made.wrong = []
        until(lambda: self.daemon.status()["gateway"]["workers"], REST, "a worker")
        self._must(lambda: self._metric("blazar_requests_in_flight") == 0, "requests are still under way")
        for place, endpoint in self._endpoints():
            self._must(lambda endpoint=endpoint: not _busy(endpoint), f"{place}: a slot is still busy")
        for key, most in KEYS.items():
            self._places_of(key, most)
        self._must(self._unloaded, "models do not unload, so a lease of one is lost")
        gateway = self.daemon.status()["gateway"]
        expected = {gateway["pid"], *gateway["workers"]}
        self._must(lambda: set(self.daemon.tree()) == expected, "processes are left over")
        pids = [self.daemon.process.pid, gateway["pid"], gateway["workers"][0]]
        for name, held in zip(self._held, settled(lambda: [Held.by(pid) for pid in pids]), strict=True):
            self._held[name].append(held)

    def _must(self, probe: Any, words: str) -> None:
        try:
            until(probe, REST, words)
        except AssertionError as error:
            self.wrong.append(str(error))
        except BlazarError as error:
            self.wrong.append(f"{words}: {error}")

    def _unloaded(self) -> bool:
        """Have all models go, each once its last lease is back; whether none is there then. One that was going already,
        and that somebody asked for who has left since, is loaded once more."""
        control = self.daemon.control()
        try:
            for model in self.models:
                control.ask("evict", REST, model=model)
        finally:
            control.close()
        return not self.daemon.status()["children"]

    def _places_of(self, key: str, most: int) -> None:
        """As many requests at once as the API key may have are all let in: no earlier one still counts."""
        question = Question("openai", False, self.models[0], PROMPTS[0], EVERY_KEY)
        with ThreadPoolExecutor(most) as pool:
            outcomes = list(pool.map(lambda _: ask(self.daemon.port, question, key), range(most)))
        lost = [outcome for outcome in outcomes if outcome.status == 429]
        if lost:
            self.wrong.append(f"{key} has lost {len(lost)} of its {most} places: {lost[0].words}")

    def _endpoints(self) -> Iterator[tuple[str, Endpoint]]:
        control = self.daemon.control()
        children = control.ask("hello", 10, role="cli", pid=os.getpid(), leases={})["snapshot"]["children"]
        control.close()
        for place, plain in children.items():
            yield place, Endpoint.from_dict(plain)

    def _metric(self, name: str) -> float:
        anybody = {"Authorization": f"Bearer {next(iter(KEYS))}"}
        request = urllib.request.Request(self.daemon.url + "/metrics", headers=anybody)
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read().decode()
        found = re.search(rf"^{name} (\S+)$", text, re.M)
        assert found is not None, f"{name} is not in /metrics"
        return float(found[1])

    # -- judging --------------------------------------------------------------------------------------------

    def _judge_all(self) -> None:
        for asked in self.clients.asked:
            words = self._judge(asked)
            if words:
                q = asked.question
                self.wrong.append(f"{q.dialect} {'streamed' if q.stream else 'buffered'} of {q.model}: {words}")
        for name, held in self._held.items():
            for kind in ("descriptors", "threads"):
                counts = [getattr(one, kind) for one in held]
                if counts and counts[-1] > counts[0] + SPARE:
                    self.wrong.append(f"{name}: {kind} at rest have grown: {counts}")
        for curve in self.curves:
            if curve.growth() > GROWTH:
                self.wrong.append(f"{curve.name} has grown by {curve.growth():.1f} MiB, {curve.slope():.2f} a minute")
        trouble = [line for line in self.daemon.log().splitlines() if "Traceback" in line]
        if trouble:
            self.wrong.append(f"{len(trouble)} tracebacks in the daemon's log")

    def _judge(self, asked: Asked) -> str:
        """What is wrong with an outcome; empty when it is whole as the engine would have it, or explained."""
        outcome, question = asked.outcome, asked.question
        if outcome.kind == "whole":
            return self._expected.difference(question, outcome)
        if outcome.kind == "refused" and outcome.status in ALLOWED:
            return ""
        if outcome.kind == "told" and question.stream:
            return ""
        if outcome.kind == "cut" and any(_overlap(fault, asked) for fault in self.made.done if fault.kind in GATEWAY):
            return ""
        return f"{outcome.kind} {outcome.status}: {outcome.words}, after {asked.ended - asked.began:.1f} s"

    def _end(self) -> None:
        """The daemon stops cleanly and leaves nothing."""
        try:
            code = self.daemon.stop(limit=30)
        except subprocess.TimeoutExpired:
            self.wrong.append("the daemon does not end")
            return
        if code != 0:
            self.wrong.append(f"the daemon ended with {code}")
        left = self.daemon.tree()
        if left:
            self.wrong.append(f"orphans: {[processes.command_of(pid) for pid in left]}")
        run = self.daemon.paths.run
        files = [file.name for pattern in ("*.pid", "*.apikey", "*.sock") for file in run.glob(pattern)]
        if files:
            self.wrong.append(f"files in run/ are left: {files}")

    # -- figures --------------------------------------------------------------------------------------------

    def figures(self) -> list[str]:
        kinds = Counter(f"{asked.outcome.kind} {asked.outcome.status or ''}".strip() for asked in self.clients.asked)
        words = Counter(f"{asked.outcome.status} {_short(asked.outcome.words)}" for asked in self.clients.asked
                        if asked.outcome.kind in ("refused", "told"))
        longest = max((asked.ended - asked.began for asked in self.clients.asked), default=0.0)
        compared = sum(asked.outcome.kind == "whole" and self._expected.compares(asked.question)
                       for asked in self.clients.asked)
        lines = [f"{len(self.clients.asked)} requests waited for: {_list(kinds)}; the longest took {longest:.1f} s",
                 f"{compared} whole answers were compared with the engine's own; the others hang on a rounding",
                 f"{self.clients.left.total()} clients left: {_list(self.clients.left)}",
                 f"{len(self.made.done)} faults: {_list(Counter(fault.kind for fault in self.made.done))}"]
        lines += [f"  {count:>5} x {what}" for what, count in words.most_common(20)]
        lines += [f"{name} at rest: descriptors {[one.descriptors for one in held]}, threads "
                  f"{[one.threads for one in held]}" for name, held in self._held.items()]
        lines += [f"{curve.name}: PSS {curve.level():.1f} MiB, {curve.slope():+.2f} MiB a minute over the last "
                  f"{len(curve.steady())} s" for curve in self.curves]
        return lines


def _overlap(fault: Fault, asked: Asked) -> bool:
    return asked.began <= fault.ended and fault.began <= asked.ended


def _busy(endpoint: Endpoint) -> bool:
    _, slots = exchange(endpoint, "GET", "/slots", None)
    return any(slot["is_processing"] for slot in json.loads(slots))


def _short(words: str) -> str:
    """A message without what is different each time."""
    return re.sub(r"\d+(\.\d+)?", "N", words.splitlines()[0])[:150]


def _list(counts: Counter[str]) -> str:
    return ", ".join(f"{what} {count}" for what, count in counts.most_common())
