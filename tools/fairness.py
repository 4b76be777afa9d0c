"""How two API keys share one slot of the real engine: `tools/fairness.py [--seconds S] [--weights 3,1] [MODEL.gguf]`.

Four clients of each key ask for answers of mixed lengths, one after the other, in two dialects. Prints the tokens of
each key, their ratio, and the most turns that the lighter key waited; exits with 1 when the ratio is further than a
tenth from that of the weights, or it waited more turns than its share explains. Without a file the model is a tiny one
of random weights, which says nothing that makes sense, at a real engine's pace.
"""

import argparse
import http.client
import itertools
import json
import math
import random
import re
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # run as a file, the checkout is not on the path

from blazar.store.store import Store  # noqa: E402
from blazar.supervisor.gateway import LAUNCHER  # noqa: E402
from tests.support.daemon import Daemon  # noqa: E402
from tests.support.real_engine import engine_path  # noqa: E402
from tests.support.tiny_gguf import tiny_gguf  # noqa: E402

NAMES = ("heavy", "light")
PATHS = ("/v1/chat/completions", "/v1/messages")
COUNT = re.compile(rb'"(?:completion|output)_tokens":(\d+)')
ONE_THREAD = {"extra_args": ["--threads", "1"]}
"""Several wait for each other on a busy machine."""
LENGTHS = (10, 40)
"""Tokens of the shortest and the longest answer."""


class Clients:
    """Ask on until `end`; `turns` are the keys in the order in which their answers began, `tokens` what each got."""

    def __init__(self, port: int, model: str) -> None:
        self.turns: list[str] = []
        self.tokens = dict.fromkeys(NAMES, 0)
        self._port = port
        self._model = model
        self._loaded = threading.Event()
        self._ended = False

    def run(self, seconds: float) -> None:
        threads = [threading.Thread(target=self._ask_on, args=(name, path)) for name in NAMES for path in PATHS * 2]
        for thread in threads:
            thread.start()
        self._loaded.wait()
        time.sleep(seconds)
        self._ended = True
        for thread in threads:
            thread.join()

    def _ask_on(self, name: str, path: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=600)
        lengths = random.Random(name + path)
        while not self._ended:
            tokens = lengths.randint(*LENGTHS)
            body = {"model": self._model, "max_tokens": tokens, "ignore_eos": True, "stream": True,
                    **({"stream_options": {"include_usage": True}} if path == PATHS[0] else {}),
                    "messages": [{"role": "user", "content": f"Tell a story, {name}."}]}
            connection.request("POST", path, json.dumps(body), {"X-Api-Key": f"sk-{name}"})
            answer = connection.getresponse()
            if answer.status != 200:
                raise SystemExit(f"{answer.status}: {answer.read().decode()}")
            self.turns.append(name)
            counts = COUNT.findall(answer.read())
            self._loaded.set()
            if not self._ended:
                self.tokens[name] += int(counts[-1])


def longest_wait(turns: list[str]) -> int:
    """The most turns of the heavy key in a row, while the light one waited."""
    return max((len(list(group)) for name, group in itertools.groupby(turns) if name == NAMES[0]), default=0)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":", 1)[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--weights", default="3,1", help="of the two keys (3,1)")
    parser.add_argument("file", nargs="?", type=Path, help="a GGUF file")
    asked = parser.parse_args()
    weights = [float(weight) for weight in asked.weights.split(",")]
    keys = [{"name": name, "key": f"sk-{name}", "weight": weight} for name, weight in zip(NAMES, weights, strict=True)]
    with tempfile.TemporaryDirectory(prefix="blazar-fair-") as folder:
        with Daemon(Path(folder), launcher=LAUNCHER, engine_path=engine_path(), slots=1, default_ctx=2048, keys=keys,
                    sse_ping_interval=-1, model_overrides={"shared": ONE_THREAD}) as daemon:
            file = asked.file or tiny_gguf(Path(folder) / "tiny.gguf", ctx=2048)
            model = Store(daemon.paths).install_file(file, "shared")["name"]
            clients = Clients(daemon.start().port, model)
            clients.run(asked.seconds)
    ratio, wanted = clients.tokens["heavy"] / max(1, clients.tokens["light"]), weights[0] / weights[1]
    waited, share = longest_wait(clients.turns), math.ceil(sum(weights) / weights[1])
    print(f"{len(clients.turns)} answers in {asked.seconds:g} s; tokens: {clients.tokens}")
    print(f"ratio {ratio:.2f}, of the weights {wanted:.2f}; the lighter key waited {waited} turns, {share} are allowed")
    return 0 if abs(ratio - wanted) <= wanted / 10 and waited <= share else 1


if __name__ == "__main__":
    raise SystemExit(main())
