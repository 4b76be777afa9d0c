"""One process under measurement: started on its core, waited for, and surely ended."""

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.bench import programs

STOP_LIMIT = 5.0
GLANCE = 0.005


class StartFailed(Exception):
    """A process ended, or did not answer in time."""


class Process:
    """Starts at once; its output goes to `log`."""

    def __init__(self, argv: Sequence[str], core: int, log: Path, env: Mapping[str, str] | None = None) -> None:
        self.log = log
        with open(log, "wb") as output:
            self._popen = subprocess.Popen(
                [programs.find("taskset"), "-c", str(core), *argv], stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, env=env if env is None else dict(env), start_new_session=True)
        self.pid = self._popen.pid

    def wait_for(self, probe: Callable[[], Any], limit: float) -> Any:
        """The first true value of `probe()`. Raises StartFailed with the last words of the process."""
        deadline = time.monotonic() + limit
        while not (found := probe()):
            if self._popen.poll() is not None or time.monotonic() > deadline:
                said = self.log.read_text(errors="replace")[-2000:]
                state = "does not answer" if self._popen.poll() is None else f"ended with {self._popen.returncode}"
                raise StartFailed(f"{self.log.stem} {state}; it said:\n{said}")
            time.sleep(GLANCE)
        return found

    def line_after(self, start: str) -> str:
        """What follows `start` in the output so far, to the end of its line; '' when that is not there yet."""
        lines = self.log.read_text(errors="replace").splitlines(keepends=True)
        return next((line[len(start):].strip() for line in lines if line.startswith(start) and line[-1] == "\n"), "")

    def stop(self) -> None:
        """SIGTERM, then SIGKILL for the whole session."""
        self._popen.terminate()
        try:
            self._popen.wait(STOP_LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)
            self._popen.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def get(address: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None,
        limit: float = 30.0) -> tuple[int, bytes]:
    """Status and body of one request; status 0 when there was no proper answer."""
    connection = http.client.HTTPConnection(address, timeout=limit)
    try:
        connection.request("GET" if body is None else "POST", path, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def get_json(address: str, path: str) -> dict[str, Any]:
    """Raises StartFailed when the answer is not a 200."""
    status, body = get(address, path)
    if status != 200:
        raise StartFailed(f"http://{address}{path} answered {status}")
    return json.loads(body)
