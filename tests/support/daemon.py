"""A real `serve` in a data dir of its own, with the stub engine and, unless asked otherwise, the stub gateway."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from blazar.control import Link, connect
from blazar.paths import Paths
from blazar.supervisor import processes
from tests.support import stub_model
from tests.support.tree_under_test import TREE
from tests.support.waiting import until

ROOT = Path(__file__).parent.parent.parent
STUB_ENGINE = ROOT / "tests" / "stubs" / "stub_llama_server.py"
STUB_GATEWAY = (sys.executable, "-P", str(ROOT / "tests" / "stubs" / "stub_gateway.py"))


class Daemon:
    """`with Daemon(tmp_path) as daemon:`; leaves no process behind, whatever the test did."""

    unix = False

    def __init__(self, folder: Path, launcher: tuple[str, ...] = STUB_GATEWAY, **settings: Any) -> None:
        self.paths = Paths(folder / "data").ensure()
        self.launcher = launcher
        self.settings = {"port": 0, "engine_path": str(STUB_ENGINE), "shutdown_grace_secs": 2, **settings}
        self.url = ""
        self.key = ""
        """The API key with which it is asked."""
        self.process: subprocess.Popen[str] | None = None
        self._folder = folder

    def __enter__(self) -> "Daemon":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        processes.end(processes.marked(self.paths.data_dir_id))

    # -- the daemon ----------------------------------------------------------------------------------------

    def launch(self) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TREE), str(ROOT)])}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.support.serve", str(self.paths.data_dir), json.dumps(self.settings),
             *self.launcher], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
            cwd=ROOT)
        return self.process

    def start(self) -> "Daemon":
        """Start and wait until it says that it listens."""
        process = self.launch()
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        assert line.startswith("blazar: listening on "), (line, process.poll(), process.stderr.read())
        self.url = line.split()[-1]
        return self

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        """kill -9 of the supervisor."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self, number: int = signal.SIGTERM, limit: float = 15.0) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(limit)

    def tree(self) -> list[int]:
        """Every living process that this data dir's supervisors started."""
        return processes.marked(self.paths.data_dir_id)

    def wait_gone(self, pids: list[int], limit: float = 5.0) -> None:
        until(lambda: not [pid for pid in pids if processes.is_alive(pid)], limit, f"end of {pids}")

    # -- models ------------------------------------------------------------------------------------------

    def install(self, name: str, **scenario: Any) -> str:
        """Before `start`: a model for the stub engine; the canonical name."""
        return stub_model.install_stub(self.paths, name, self._folder, **scenario)

    def file(self, model: str) -> Path:
        from blazar.store.store import Store
        return stub_model.model_file(self.paths, Store(self.paths).describe(model)["digest"])

    def play(self, model: str, **scenario: Any) -> None:
        Path(f"{self.file(model)}.stub.json").write_text(json.dumps(scenario))

    def starts(self, model: str) -> list[list[str]]:
        """Pid and port of each start of the stub engine for this model."""
        file = Path(f"{self.file(model)}.starts")
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def requests(self, model: str) -> list[dict[str, Any]]:
        file = Path(f"{self.file(model)}.requests.jsonl")
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    # -- talking to it -------------------------------------------------------------------------------------

    def get(self, path: str, limit: float = 30.0) -> tuple[int, Any]:
        """Status and JSON of a GET at the gateway."""
        return _answer(self._request(path), limit)

    def text(self, path: str, limit: float = 30.0) -> str:
        """The text of a GET at the gateway."""
        with urllib.request.urlopen(self._request(path), timeout=limit) as answer:
            return answer.read().decode()

    def post(self, path: str, body: Any, limit: float = 30.0) -> tuple[int, Any]:
        """Status and JSON of a POST of JSON."""
        return _answer(self._request(path, json.dumps(body).encode()), limit)

    def _request(self, path: str, body: bytes | None = None) -> urllib.request.Request:
        return urllib.request.Request(self.url + path, body, {"X-Api-Key": self.key} if self.key else {})

    def control(self) -> Link:
        return connect(self.paths.control_socket)

    def status(self) -> dict[str, Any]:
        link = self.control()
        try:
            return link.ask("status", 10)
        finally:
            link.close()

    def state(self, model: str) -> str:
        return next((child["state"] for child in self.status()["children"] if child["model"] == model), "absent")

    def log(self) -> str:
        return self.paths.daemon_log.read_text()

    def gateway_log(self) -> str:
        """What gunicorn and its worker wrote."""
        return (self.paths.run / "gateway.log").read_text()


def _answer(request: urllib.request.Request, limit: float) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(request, timeout=limit) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


class UnixDaemon(Daemon):
    """Its children listen on Unix sockets; the data dir has a short path, as such sockets need."""

    unix = True

    def __init__(self, folder: Path, launcher: tuple[str, ...] = STUB_GATEWAY, **settings: Any) -> None:
        self._short = tempfile.TemporaryDirectory(prefix="bz-")
        super().__init__(Path(self._short.name), launcher, child_transport="unix", **settings)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._short.cleanup()


DAEMONS = {"tcp": Daemon, "unix": UnixDaemon}
"""By child_transport; tests of children run with each."""
