"""Programs that run once and end (compilers, llama-quantize, llama-bench): started, read by lines, never left over."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

NEEDED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
"""Variables that any such program may need; nothing else of our environment is handed on unless it is asked for."""

LINE = 64 << 10
"""Bytes of one line that are read at once; a longer line counts as several."""

KEPT_LINES = 12
"""Last lines that are kept for a message."""

LIMIT = 8 << 20
"""Bytes of its output that are kept."""


@dataclass(frozen=True)
class Finished:
    """How a program ended."""

    code: int
    output: str
    """What it printed on stdout, up to LIMIT; empty when stderr was merged into it."""
    said: str
    """The last lines for a person: of stderr, or of both when they were merged."""


def needed(env: Mapping[str, str], *more: str) -> dict[str, str]:
    """The part of `env` that such a program gets: NEEDED and the names in `more`."""
    return {name: env[name] for name in (*NEEDED, *more) if name in env}


def run(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None = None,
        on_line: Callable[[str], None] | None = None) -> Finished:
    """Run `argv` to its end. With `on_line` it is called with each line of both streams, merged, as it comes.

    Whatever interrupts this ends the program and all that it started. Raises OSError when it cannot be started.
    """
    kept: deque[str] = deque(maxlen=KEPT_LINES)
    pieces: list[str] = []
    size = 0
    with tempfile.TemporaryFile() as errors:
        with _running(argv, env, cwd, subprocess.STDOUT if on_line else errors.fileno()) as program:
            assert program.stdout is not None
            for raw in iter(lambda: program.stdout.readline(LINE), b""):  # type: ignore[union-attr]
                line = raw.decode(errors="replace")
                if on_line:
                    kept.append(line)
                    on_line(line.rstrip("\n"))
                elif size < LIMIT:
                    size += len(raw)
                    pieces.append(line)
        if not on_line:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - LINE))
            kept.extend(errors.read().decode(errors="replace").splitlines(keepends=True))
    said = "\n".join(line.strip() for line in kept if line.strip())
    return Finished(program.returncode, "".join(pieces), said)


@contextlib.contextmanager
def _running(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None,
             stderr: int) -> Iterator["subprocess.Popen[bytes]"]:
    """The program in a session of its own, so that Ctrl-C reaches us alone and we end it.

    If we are killed the kernel ends it: the thread that starts it here also waits for it.
    """
    setpriv = shutil.which("setpriv")
    guarded = [setpriv, "--pdeathsig", "KILL", *argv] if setpriv else list(argv)
    with subprocess.Popen(guarded, env=dict(env), cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=stderr, start_new_session=True) as program:
        try:
            yield program
            program.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                if program.poll() is None:
                    os.killpg(program.pid, signal.SIGKILL)


def ended(finished: Finished) -> str:
    """How the program ended and what it said last, for a message."""
    how = f"it died of {_signal_name(-finished.code)}" if finished.code < 0 else f"exit code {finished.code}"
    return f"{how}; it said: {finished.said}" if finished.said else f"{how}, without a word"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
