"""Run an engine program for a moment: does it start here, and how many tokens a second does it write.

The engine listens on a Unix socket in a folder of our own, so nobody else is asked by mistake. Our clock counts, from
the question, which is short, to the last token: what an engine says of itself need not be true, and pieces that wait
for us on a busy machine must not make it look fast.
"""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from blazar.engines.oneshot import ending, guarded, kept, last_words
from blazar.engines.program import EMBEDDED_MODULE, Program
from blazar.paths import package_home
from blazar.store.scratch import scratch
from blazar.transport import connection_to
from blazar.units import format_duration

LONGEST_ADDRESS = 107
"""Bytes of a Unix socket's path."""
START_LIMIT = 60.0
"""Seconds within which a program must tell its version."""
LOAD_LIMIT = 300.0
TOKENS = 128
WARM_UP = 8
"""Tokens of an answer, and of the first one, which is not timed."""
LONGEST_RUN = 10.0
"""Seconds after which one run is cut short, with the tokens it has."""
ROUNDS = 3
LEAST_TIME = 1.0
"""Answers that are timed at least, and seconds that it takes at least."""
CTX = 512
ANSWER_BYTES = 8 << 20
"""Of one answer that is read."""
PROMPT = "Once"


class Fault(Exception):
    """What a program did in place of what was asked of it, in words that go into a longer message."""


def starts(program: Program, extra: Mapping[str, str]) -> str:
    """What the program says to `--version`. Raises Fault with its words when it does not run here."""
    try:
        done = subprocess.run([*program.argv, "--version"], env=environment(program, extra), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=START_LIMIT, cwd="/")
    except subprocess.TimeoutExpired as error:
        raise Fault(f"it told no version within {format_duration(START_LIMIT)}") from error
    except OSError as error:
        raise Fault(str(error)) from error
    said = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise Fault(f"{ending(done.returncode)}{last_words(said)}")
    return said.strip()


def decode_rate(program: Program, model: Path, extra: Mapping[str, str]) -> float:
    """Tokens a second that the program writes with `model`: of several answers the fastest, since a busy machine only
    ever slows one down. Raises Fault."""
    with served(program, model, extra) as address:
        _write(address, WARM_UP)
        rates: list[float] = []
        began = time.monotonic()
        while len(rates) < ROUNDS or time.monotonic() - began < LEAST_TIME:
            rates.append(_write(address, TOKENS))
        return max(rates)


@contextlib.contextmanager
def served(program: Program, model: Path, extra: Mapping[str, str], ctx: int = CTX) -> Iterator[Path]:
    """The socket of an engine that serves `model` for as long as the block lasts. Raises Fault."""
    with scratch("engine") as folder:
        address = folder / "engine.sock"
        if len(os.fsencode(address)) > LONGEST_ADDRESS:
            raise Fault(f"{address} is too long for a socket; set TMPDIR to a folder with a shorter path")
        argv = [*program.argv, "--model", str(model), "--host", str(address), "--port", "8080", "--parallel", "1",
                "--ctx-size", str(ctx)]
        with open(folder / "log", "w+b") as log, _running(argv, environment(program, extra), log) as engine:
            _wait_ready(engine, address, log)
            yield address


def ask(address: Path, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object that the engine answers to a POST of `body`. Raises Fault."""
    try:
        with contextlib.closing(connection_to(str(address), LOAD_LIMIT)) as connection:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read(ANSWER_BYTES)
        answer = json.loads(text) if response.status == 200 else None
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Fault(f"it did not answer {path} ({error})") from error
    if not isinstance(answer, dict):
        raise Fault(f"it answered {path} with {response.status}: {text[:300].decode(errors='replace')}")
    return answer


def environment(program: Program, extra: Mapping[str, str]) -> dict[str, str]:
    """What an engine may see: nothing of our keys and tokens."""
    path = {"PYTHONPATH": str(package_home())} if program.argv[1:] == EMBEDDED_MODULE else {}
    return {**kept(os.environ), **path, **extra}


@contextlib.contextmanager
def _running(argv: list[str], env: Mapping[str, str], log: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """The engine, in a session of its own, for as long as the block lasts; it ends when we are killed, too."""
    with subprocess.Popen(guarded(argv), env=dict(env), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
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
            raise Fault(f"{ending(engine.returncode)}{last_words(_read(log))}")
        if time.monotonic() > deadline:
            raise Fault(f"it was not ready within {format_duration(LOAD_LIMIT)}")
        with contextlib.suppress(subprocess.TimeoutExpired):
            engine.wait(0.05)


def _read(log: Any) -> str:
    log.seek(max(0, log.seek(0, os.SEEK_END) - 8192))
    return log.read().decode(errors="replace")


def _healthy(address: Path) -> bool:
    try:
        with contextlib.closing(connection_to(str(address), 5.0)) as connection:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False


def _write(address: Path, tokens: int) -> float:
    """Tokens a second of one answer."""
    body = json.dumps({"prompt": PROMPT, "n_predict": tokens, "ignore_eos": True, "temperature": 0, "stream": True,
                       "cache_prompt": False})
    try:
        with contextlib.closing(connection_to(str(address), LOAD_LIMIT)) as connection:
            asked = time.monotonic()
            connection.request("POST", "/completion", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                raise Fault(f"it answered {response.status}: {response.read(300).decode(errors='replace')}")
            written = _count(response, asked + LONGEST_RUN)
    except (OSError, http.client.HTTPException) as error:
        raise Fault(f"it did not answer ({error})") from error
    if written == 0:
        raise Fault(f"it wrote nothing where {tokens} tokens were asked for")
    return written / (time.monotonic() - asked)


def _count(lines: Iterable[bytes], deadline: float) -> int:
    """Tokens of an answer, as its last event before `deadline` tells them; some make no event of their own.

    An engine that cannot make sense of what the model wrote ends the answer with an error; what came before counts.
    """
    written = 0
    for line in lines:
        if line.startswith(b"data: {"):
            try:
                event = json.loads(line[len(b"data: "):])
            except ValueError as error:
                raise Fault(f"it wrote what is no JSON: {line[:80]!r}") from error
            if "error" in event and written == 0:
                raise Fault(f"it answered {json.dumps(event['error'])[:300]}")
            if "error" in event:
                break
            count = event.get("tokens_predicted")
            written = count if isinstance(count, int) else written + 1
            if event.get("stop") or time.monotonic() > deadline:
                break
    return written
