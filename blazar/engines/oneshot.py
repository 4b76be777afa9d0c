"""Programs that run once and end (compilers, llama-quantize, llama-bench): started, read by lines, never left over."""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

KEPT = ("PATH", "HOME", "USER", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
KEPT_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HSA_", "GGML_", "OMP_", "VK_")
"""Variables that an engine's program may need: nothing of our keys and tokens."""

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
    """Its last lines: of stderr, or of both when they were merged."""

    @property
    def ending(self) -> str:
        """How it ended and what it said last, for a message."""
        return f"{ending(self.code)}{last_words(self.said)}"


def kept(env: Mapping[str, str], *more: str) -> dict[str, str]:
    """The part of `env` that such a program gets, with the names in `more`."""
    return {name: value for name, value in env.items() if name in (*KEPT, *more) or name.startswith(KEPT_PREFIXES)}


def run(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None = None,
        on_line: Callable[[str], None] | None = None, grace: float = 0.0) -> Finished:
    """Run `argv` to its end. With `on_line` it is called with each line of both streams, merged, as it comes.

    Whatever interrupts this ends the program and all that it started; it gets `grace` seconds after a SIGINT to tidy
    up. Raises OSError when it cannot be started.
    """
    if shutil.which(argv[0], path=env.get("PATH")) is None:
        raise FileNotFoundError(errno.ENOENT, "there is no such program", argv[0])
    last: deque[str] = deque(maxlen=KEPT_LINES)
    pieces: list[str] = []
    size = 0
    with tempfile.TemporaryFile() as errors:
        with _running(argv, env, cwd, subprocess.STDOUT if on_line else errors.fileno(), grace) as program:
            assert program.stdout is not None
            for raw in iter(lambda: program.stdout.readline(LINE), b""):  # type: ignore[union-attr]
                line = raw.decode(errors="replace")
                if on_line:
                    last.append(line)
                    on_line(line.rstrip("\n"))
                elif size < LIMIT:
                    size += len(raw)
                    pieces.append(line)
        if not on_line:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - LINE))
            last.extend(errors.read().decode(errors="replace").splitlines(keepends=True))
    return Finished(program.returncode, "".join(pieces), "".join(last))


@contextlib.contextmanager
def _running(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None,
             stderr: int, grace: float) -> Iterator["subprocess.Popen[bytes]"]:
    """The program in a session of its own, so that Ctrl-C reaches us alone and we end it.

    If we are killed the kernel ends it: the thread that starts it here also waits for it.
    """
    with subprocess.Popen(guarded(argv), env=dict(env), cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=stderr, start_new_session=True) as program:
        try:
            yield program
            program.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                if grace and program.poll() is None:
                    os.killpg(program.pid, signal.SIGINT)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        program.wait(grace)
                if program.poll() is None:
                    os.killpg(program.pid, signal.SIGKILL)


def guarded(argv: Sequence[str], path: str | None = None) -> list[str]:
    """`argv`, ended by the kernel with the thread that starts it, where `path` (otherwise PATH) has setpriv."""
    setpriv = shutil.which("setpriv", path=path)
    return [setpriv, "--pdeathsig", "KILL", "--", *argv] if setpriv else list(argv)


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
