"""Run an engine program for a moment: does it start here, and how many tokens a second does it write.

The engine listens on a Unix socket in a folder of our own, so nobody else is asked by mistake. Tokens are counted by
our clock, from the first to the last: what an engine says of itself need not be true.
"""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from blazar.engines.lane import Program
from blazar.errors import EngineStartFailed
from blazar.paths import package_home
from blazar.units import format_duration

START_LIMIT = 60.0
"""Seconds within which a program must tell its version."""
LOAD_LIMIT = 300.0
TOKENS = 64
LONGEST_RUN = 20.0
"""Seconds after which one run is cut short, with the tokens it has."""
CTX = 512
PROMPT = "Once upon a time there was a small engine that wanted to be measured. It"
KEPT = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
KEPT_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HSA_", "GGML_", "OMP_", "VK_")


def starts(program: Program, extra: Mapping[str, str]) -> str:
    """What the program says to `--version`. Raises EngineStartFailed with its words when it does not run here."""
    try:
        done = subprocess.run([*program.argv, "--version"], env=environment(program, extra), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=START_LIMIT, cwd="/")
    except subprocess.TimeoutExpired as error:
        raise EngineStartFailed(reason=f"it told no version within {format_duration(START_LIMIT)}") from error
    except OSError as error:
        raise EngineStartFailed(reason=str(error)) from error
    said = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise EngineStartFailed(reason=f"{ending(done.returncode)}{last_words(said)}")
    return said.strip()


def decode_rate(program: Program, model: Path, extra: Mapping[str, str], rounds: int) -> float:
    """Tokens a second that the program writes with `model`, the best of some rounds. Raises EngineStartFailed."""
    with tempfile.TemporaryDirectory(prefix="blazar-gate-") as folder:
        address = Path(folder) / "engine.sock"
        argv = [*program.argv, "--model", str(model), "--host", str(address), "--port", "8080", "--parallel", "1",
                "--ctx-size", str(CTX)]
        with open(Path(folder) / "log", "w+b") as log, _running(argv, environment(program, extra), log) as engine:
            _wait_ready(engine, address, log)
            _write(address)  # the first answer warms up
            return max(_write(address) for _ in range(rounds))


def environment(program: Program, extra: Mapping[str, str]) -> dict[str, str]:
    """What an engine may see: nothing of our keys and tokens."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_PREFIXES)}
    path = {"PYTHONPATH": str(package_home())} if program.source == "embedded" else {}
    return {**kept, **path, **extra}


def ending(code: int) -> str:
    """How a process ended, for a message."""
    if code >= 0:
        return f"it ended with exit code {code}"
    try:
        return f"it was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"it was ended by signal {-code}"


def last_words(output: str) -> str:
    """The last lines of an engine's output, for a message."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return f"; it said: {' / '.join(lines[-3:])[:400]}" if lines else ", without a word"


@contextlib.contextmanager
def _running(argv: list[str], env: Mapping[str, str], log: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """The engine, in a session of its own, for as long as the block lasts; it ends when we are killed, too."""
    setpriv = shutil.which("setpriv")
    guarded = [setpriv, "--pdeathsig", "KILL", *argv] if setpriv else argv
    with subprocess.Popen(guarded, env=dict(env), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                          start_new_session=True) as engine:
        try:
            yield engine
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(engine.pid, signal.SIGKILL)


def _wait_ready(engine: "subprocess.Popen[bytes]", address: Path, log: Any) -> None:
    deadline = time.monotonic() + LOAD_LIMIT
    while not _healthy(address):
        if engine.poll() is not None:
            raise EngineStartFailed(reason=f"{ending(engine.returncode)}{last_words(_read(log))}")
        if time.monotonic() > deadline:
            raise EngineStartFailed(reason=f"it was not ready within {format_duration(LOAD_LIMIT)}")
        with contextlib.suppress(subprocess.TimeoutExpired):
            engine.wait(0.05)


def _read(log: Any) -> str:
    log.seek(max(0, log.seek(0, os.SEEK_END) - 8192))
    return log.read().decode(errors="replace")


def _healthy(address: Path) -> bool:
    try:
        with contextlib.closing(_Connection(address, 5.0)) as connection:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False


def _write(address: Path) -> float:
    """Tokens a second of one answer."""
    body = json.dumps({"prompt": PROMPT, "n_predict": TOKENS, "ignore_eos": True, "temperature": 0, "stream": True,
                       "cache_prompt": False})
    try:
        with contextlib.closing(_Connection(address, LOAD_LIMIT)) as connection:
            connection.request("POST", "/completion", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                raise EngineStartFailed(reason=f"it answered {response.status}: "
                                               f"{response.read(300).decode(errors='replace')}")
            times = []
            for line in response:
                if line.startswith(b"data: ") and b'"stop":false' in line.replace(b" ", b""):
                    times.append(time.monotonic())
                    if times[-1] - times[0] > LONGEST_RUN:
                        break
    except (OSError, http.client.HTTPException) as error:
        raise EngineStartFailed(reason=f"it did not answer ({error})") from error
    if len(times) < 3:
        raise EngineStartFailed(reason=f"it wrote {len(times)} tokens where {TOKENS} were asked for")
    return (len(times) - 1) / max(times[-1] - times[0], 1e-6)


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, address: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._address = str(address)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._address)
