"""Ask a program one thing about itself, such as `--help`: soon over, little said, nothing left behind."""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from blazar.engines.oneshot import guarded

NEEDED = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
"""Variables of ours that a program needs to start; it sees no others."""
TIME_LIMIT = 10.0
"""Seconds until it must have ended."""
SIZE_LIMIT = 1 << 20
"""Bytes that are read; who says more is ended."""


def ask(argv: Sequence[str], env: Mapping[str, str], extra: Mapping[str, str], time_limit: float = TIME_LIMIT) -> str:
    """What `argv` prints on either stream. `env` is our own environment, `extra` goes to the program as it is.

    Raises OSError when it cannot be started, TimeoutError when it does not end in time.
    """
    kept = {name: env[name] for name in NEEDED if name in env}
    with subprocess.Popen(guarded(argv, env.get("PATH")), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, cwd="/", start_new_session=True,
                          env={**kept, "LC_ALL": "C.UTF-8", "COLUMNS": "160", **extra}) as program:
        try:
            return _listen(program, time_limit).decode(errors="replace")
        finally:
            with suppress(ProcessLookupError):  # not reaped yet, so the number is still its own
                os.killpg(program.pid, signal.SIGKILL)


def _listen(program: "subprocess.Popen[bytes]", time_limit: float) -> bytes:
    """Read until it closes its output or has said enough."""
    assert program.stdout is not None
    heard = bytearray()
    deadline = time.monotonic() + time_limit
    with selectors.DefaultSelector() as selector:
        selector.register(program.stdout, selectors.EVENT_READ)
        while len(heard) < SIZE_LIMIT:
            left = deadline - time.monotonic()
            if left <= 0 or not selector.select(left):
                raise TimeoutError(f"it did not end within {time_limit:g} s")
            data = os.read(program.stdout.fileno(), 65536)
            if not data:
                break
            heard += data
    return bytes(heard[:SIZE_LIMIT])
