"""Blazar as it would run: `blazar serve` with its defaults and eight API keys, and our engine as its child."""

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import blazar
from blazar.config.active import ACTIVE
from blazar.control import connect
from blazar.paths import Paths
from blazar.store.store import Store
from blazar.transport import Endpoint
from tests.support.stub_model import write_header
from tools.bench import counts, machine, process, programs
from tools.bench.targets import START_LIMIT, Target

KEYS = 8
KEY_NAMES = tuple(f"bench {number}" for number in range(KEYS))
CTX = 57344
"""Tokens that one request may have: enough for the largest that is sent."""
TINY = {"block_count": 1, "embedding_length": 16, "attention.head_count": 1}
"""A model of which so much context for so many slots fits into main memory, as far as the planner knows."""
SLOTS = 256
"""As many as Blazar allows; so many connections to the engine are kept, as the others keep theirs."""
LIMITS = {"rpm": 10**9, "tpm": 10**9, "daily_tokens": 10**12, "max_concurrent": 10**5}
"""Limits that no run reaches: they are kept, and never refuse."""
SAY_VERSIONS = ("import falcon, gevent, gunicorn, platform; print(f'(Python {platform.python_version()}, gunicorn "
                "{gunicorn.__version__}, gevent {gevent.__version__}, Falcon {falcon.__version__})')")
LISTENING = "blazar: listening on http://"
HOME = Path(blazar.__file__).parent.parent
"""From where this Python has Blazar: from the checkout, or from the compiled form of it."""


class Blazar(Target):
    """`python` runs it: another one gives the same with other packages. `home` is from where it has it."""

    name = "blazar"

    def __init__(self, layout: machine.Layout, folder: Path, name: str = "blazar",
                 python: str = sys.executable, home: Path = HOME) -> None:
        super().__init__(layout, folder)
        self.name = name
        self.python = python
        self.home = home
        self.paths = Paths(folder / name)
        self._config = folder / f"{name}.toml"
        self._secrets = [f"bench-key-{number}" for number in range(KEYS)]
        self._child: Endpoint | None = None
        self._lines = counts.AuditLines(self.paths.log / "audit.jsonl")

    # -- its life ------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Before the first start: the configuration, the keys' file for the client, and a model."""
        self._config.write_text(config_text(self._secrets, ACTIVE))
        self.keys = self.folder / f"{self.name}.keys"
        self.keys.write_text("".join(f"{secret}\n" for secret in self._secrets))
        self.paths.ensure()
        file = write_header(self.folder / f"{self.name}.gguf", "bench", CTX, shape=TINY)
        self.model = Store(self.paths).install_file(file, "bench")["name"]

    def start(self) -> None:
        """Until the daemon listens; no model is loaded yet."""
        if self.keys is None:
            self.prepare()
        self._process = self._serve(0)
        started = self._process
        self.to = started.wait_for(lambda: started.line_after(LISTENING), START_LIMIT)

    def load(self) -> None:
        """Load the model with a first request, and move the engine to the client's core."""
        body = {"model": self.model, "messages": [{"role": "user", "content": "Hello"}]}
        status, answer = process.get(self.to, "/v1/chat/completions", self.headers, json.dumps(body).encode())
        if status != 200:
            raise process.StartFailed(f"{self.name} answered the first request with {status}: {answer.decode()}")
        children = self._ask("hello", role="cli", pid=os.getpid(), leases={})["snapshot"]["children"]
        self._child = Endpoint.from_dict(children[self.model])
        machine.pin(self._child.pid, self.layout.client)
        assert not isinstance(self._child.address, str)
        self.engine = "{}:{}".format(*self._child.address)

    def stop(self) -> None:
        self._child = None
        super().stop()

    def start_seconds(self) -> float:
        """From the start of `serve` to the first 200 of /v1/models."""
        port = process.free_port()
        began = time.monotonic()
        self._process = self._serve(port)
        try:
            self._process.wait_for(
                lambda: process.get(f"127.0.0.1:{port}", "/v1/models", self.headers)[0] == 200, START_LIMIT)
            return time.monotonic() - began
        finally:
            self.stop()

    def _serve(self, port: int) -> process.Process:
        env = {name: value for name, value in os.environ.items() if not name.startswith("BLAZAR_")}
        env |= {"PYTHONPATH": str(self.home), "BLAZAR_ENGINE_PATH": str(programs.build_c("engine"))}
        command = [self.python, "-P", "-m", "blazar.cli.main", "--config", str(self._config), "--data-dir",
                   str(self.paths.data_dir), "serve", "--port", str(port)]
        return process.Process(command, self.layout.proxy, self.folder / f"{self.name}.log", env)

    # -- what is read of it --------------------------------------------------------------------------------

    @property
    def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._secrets[0]}", "Content-Type": "application/json"}

    def pids(self) -> list[int]:
        """All its processes but the engine."""
        return [pid for pid in super().pids() if self._child is None or pid != self._child.pid]

    def worker_pid(self) -> int:
        """The gateway worker, which does the work."""
        return self._ask("status")["gateway"]["workers"][0]

    def counts(self) -> counts.Counts:
        status, text = process.get(self.to, "/metrics?engines=false", self.headers)
        return counts.from_metrics(text.decode() if status == 200 else "", self._lines.count(), KEY_NAMES)

    def version(self) -> str:
        versions = programs.output([self.python, "-c", SAY_VERSIONS])
        return versions if self.home == programs.ROOT else f"compiled {versions}"

    def _ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        link = connect(self.paths.control_socket)
        try:
            return link.ask(kind, START_LIMIT, **fields)
        finally:
            link.close()


def limits(active: frozenset[str]) -> dict[str, int]:
    """The limits of an API key that this version keeps; it refuses to start with others."""
    return {name: value for name, value in LIMITS.items() if f"keys[].{name}" in active}


def config_text(secrets: list[str], active: frozenset[str]) -> str:
    """The defaults, API keys with their limits, the slots of our engine, which answers everybody at once, and a context
    into which the largest request fits."""
    kept = "".join(f"{name} = {value}\n" for name, value in limits(active).items())
    keys = (f'[[keys]]\nname = "{name}"\nkey = "{secret}"\n{kept}\n'
            for name, secret in zip(KEY_NAMES, secrets, strict=False))
    return f"slots = {SLOTS}\ndefault_ctx = {CTX}\n\n" + "".join(keys)
