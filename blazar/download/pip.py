"""pip as the client of a package index: a program beside us, so that the person's own pip settings (mirrors, proxies,
certificates) decide where a package comes from.

Unlike `fetch` it keeps nothing of a download that was interrupted. The limit of this process holds for it too: it is
halted for as long as what it got was too much.
"""

import contextlib
import functools
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from blazar.download.throttle import Bucket

POLL = 0.1
"""Seconds between two looks at the growing download."""

REMEDY = "see that this machine reaches the package index of `pip config list`, then try again"

_OPTIONS = ("--no-deps", "--only-binary=:all:", "--no-input", "--progress-bar=off", "--disable-pip-version-check")
_SCRATCH = "scratch"
_LOG = "pip.log"


def python_with_pip() -> str | None:
    """This interpreter if it has pip, else the `python3` of PATH if that has."""
    if importlib.util.find_spec("pip") is not None:
        return sys.executable
    other = shutil.which("python3")
    argv = [other or "", "-m", "pip", "--version"]
    has_pip = other and subprocess.run(argv, stdin=subprocess.DEVNULL, cwd="/", capture_output=True).returncode == 0
    return other if has_pip else None


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """Everything but our own variables, some of which are secret."""
    return {name: value for name, value in env.items() if not name.startswith("BLAZAR_")}


def run(python: str, words: Sequence[str], folder: Path, bucket: Bucket | None,
        tell: Callable[[int], None]) -> str | None:
    """Run the pip of `python` to its end; None, or what it said when it failed.

    It works in `folder`, and `tell` is called with the bytes that have come. If we are killed, the kernel ends it: the
    thread that starts it here also waits for it. Raises OSError.
    """
    (folder / _SCRATCH).mkdir(exist_ok=True)
    setpriv = shutil.which("setpriv")
    argv = [*([setpriv, "--pdeathsig", "KILL"] if setpriv else ()), python, "-m", "pip", *words, *_OPTIONS]
    env = {**environment(os.environ), "TMPDIR": str(folder / _SCRATCH), "PIP_REQUIRE_VIRTUALENV": "0"}
    with open(folder / _LOG, "wb") as log, _running(argv, folder, env, log.fileno()) as pip:
        most = 0
        while pip.poll() is None:
            before, most = most, max(most, came(folder))  # the file is gone for a moment when it gets its name
            tell(most)
            if bucket is not None:
                bucket.take(most - before, functools.partial(_halt, pip, functools.partial(tell, most)))
            with contextlib.suppress(subprocess.TimeoutExpired):
                pip.wait(POLL)
    return None if pip.returncode == 0 else _last_words(folder / _LOG, pip.returncode)


def came(folder: Path) -> int:
    """Bytes that have come of the download in `folder`: the size of the largest file that pip keeps there."""
    done = 0
    for place, _, files in os.walk(folder / _SCRATCH):
        for file in files:
            with contextlib.suppress(OSError):
                done = max(done, os.stat(os.path.join(place, file)).st_size)
    return done


def tidy(folder: Path) -> None:
    """Remove what pip leaves in `folder` beside its work."""
    (folder / _LOG).unlink(missing_ok=True)
    shutil.rmtree(folder / _SCRATCH, ignore_errors=True)


@contextlib.contextmanager
def _running(argv: Sequence[str], folder: Path, env: dict[str, str], log: int) -> Iterator["subprocess.Popen[bytes]"]:
    """pip in a session of its own, so that Ctrl-C reaches us alone and we end it."""
    with subprocess.Popen(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                          start_new_session=True) as pip:
        try:
            yield pip
        finally:
            if pip.poll() is None:
                os.killpg(pip.pid, signal.SIGKILL)
                pip.wait()  # after Ctrl-C the end of the block alone would not


def _halt(pip: "subprocess.Popen[bytes]", tell: Callable[[], None], seconds: float) -> None:
    """Let pip stand still for so long; what is on its way fills the connection, and the other side waits."""
    os.killpg(pip.pid, signal.SIGSTOP)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        tell()
        time.sleep(min(POLL, left))
    os.killpg(pip.pid, signal.SIGCONT)


def _last_words(log: Path, code: int) -> str:
    """The errors that pip printed, else its last lines."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    words = " / ".join(errors[-3:] or lines[-3:])
    return f"pip says: {words[:600]}" if words else f"pip ended with exit code {code} and no words"
