"""Command → process: environment, mark, pid file, secret, captured output, and a sure end.

`spawn` must be called on the main thread: the kernel sends the death signal when the thread that forked ends.
"""

import os
import secrets
import signal
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from blazar.errors import SocketPathTooLong
from blazar.paths import Paths
from blazar.store.name import file_safe
from blazar.supervisor import processes
from blazar.telemetry.log import OutputFile

KEPT = frozenset({"PATH", "HOME", "USER", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"})
KEPT_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "HIP_", "ROCR_", "HSA_", "GGML_", "OMP_", "VK_")
LAST_LINES = 40
LONGEST_LINE = 4096
SUN_PATH = 107
"""Bytes that the path of a Unix socket may have."""


def child_environment(environ: Mapping[str, str], mark: str, extra: Mapping[str, str]) -> dict[str, str]:
    """What a child may see: no keys, no tokens, nothing of systemd's; then its mark, then `extra`."""
    kept = {name: value for name, value in environ.items() if name in KEPT or name.startswith(KEPT_PREFIXES)}
    return {**kept, **extra, processes.MARK: mark}


def secret_path(paths: Paths, name: str) -> Path:
    return paths.run / f"{file_safe(name)}.apikey"


def socket_path(paths: Paths, name: str) -> Path:
    """The Unix socket of a child. Raises SocketPathTooLong when the system has no room for such a path."""
    path = paths.run / f"{file_safe(name)}.sock"
    size = len(os.fsencode(path))
    if size > SUN_PATH:
        folder = len(os.fsencode(paths.run)) + 1
        names = folder * 2 < SUN_PATH
        too_long = f"the model's name takes {size - folder}" if names else f"the data dir takes {folder}"
        raise SocketPathTooLong(model=name, path=path, size=size, limit=SUN_PATH, too_long=too_long)
    return path


def write_secret(path: Path) -> str:
    """A fresh secret, in a new file that only its owner may read."""
    secret = secrets.token_urlsafe(32)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(secret + "\n")
    return secret


def free_port(host: str) -> int:
    """A port nobody listens on just now. Somebody else may take it before the child does, so the caller checks."""
    with socket.create_server((host, 0)) as probe:
        return probe.getsockname()[1]


class Process:
    """A running child with a session, and so a process group, of its own."""

    def __init__(self, name: str, mark: str, popen: subprocess.Popen[bytes], output: "Output",
                 files: Sequence[Path]) -> None:
        self.name = name
        self._mark = mark
        self.pid = popen.pid
        self.exited = threading.Event()
        self.exit_code: int | None = None
        self._popen = popen
        self._output = output
        self._files = files
        self._lock = threading.Lock()

    def last_lines(self, count: int = 10) -> list[str]:
        return self._output.last(count)

    def signal_leader(self, number: int) -> None:
        self._send(os.kill, number)

    def terminate(self) -> None:
        self._send(os.killpg, signal.SIGTERM)

    def kill(self) -> None:
        self._send(os.killpg, signal.SIGKILL)

    def describe_exit(self) -> str:
        code = self.exit_code
        if code is None or code >= 0:
            return f"the engine exited with code {code}"
        with suppress(ValueError):
            return f"the engine was ended by {signal.Signals(-code).name}"
        return f"the engine was ended by signal {-code}"

    def watch(self, on_exit: Callable[["Process"], None]) -> None:
        """Thread: wait for the end, take the rest of the group along, clear the files, then tell."""
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with self._lock, suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)  # the leader is not reaped yet, so the number is still ours
        with self._lock:
            self.exit_code = self._popen.wait()
            self.exited.set()
        with suppress(OSError):
            processes.end(processes.marked_as(self._mark))  # helpers with a session of their own
        self._output.finish()
        for file in self._files:
            with suppress(OSError):  # the next sweep has another try; that it has ended must be told
                file.unlink(missing_ok=True)
        on_exit(self)

    def _send(self, send: Callable[[int, int], None], number: int) -> None:
        with self._lock, suppress(OSError):
            if not self.exited.is_set():
                send(self.pid, number)


class Output:
    """Reads what a child writes: all of it to a file, the last lines to memory."""

    def __init__(self, pipe: BinaryIO, file: Path) -> None:
        self._pipe = pipe
        self._file = OutputFile(file)
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._rest = b""
        self._thread = threading.Thread(target=self._read, name=f"output of {file.stem}", daemon=True)
        self._thread.start()

    def last(self, count: int) -> list[str]:
        rest = [self._text(self._rest)] if self._rest.strip() else []
        return [*self._lines, *rest][-count:]

    def finish(self) -> None:
        """Wait for the last of it; not for ever, since a stranger may have inherited the pipe."""
        self._thread.join(1.0)

    def _read(self) -> None:
        with self._pipe as pipe:
            while data := pipe.read(65536):
                with suppress(OSError):
                    self._file.write(data)
                *lines, rest = (self._rest + data).split(b"\n")
                self._lines.extend(self._text(line) for line in lines[-LAST_LINES:] if line.strip())
                self._rest = rest[-LONGEST_LINE:]
        self._file.close()

    def _text(self, line: bytes) -> str:
        return line[:LONGEST_LINE].decode(errors="replace").rstrip()


def spawn(argv: Sequence[str], name: str, paths: Paths, on_exit: Callable[[Process], None],
          extra: Mapping[str, str], *, death: str = "KILL", pass_fds: Sequence[int] = (),
          files: Sequence[Path] = (), log_as: str = "") -> Process:
    """Start `argv`; `on_exit` is called on a thread once the process and its group have ended.

    `extra` is environment of its own; `death` the signal it gets when we die; `files` are removed, with the pid file,
    after its end; `log_as` names the log where that is not its own. Raises OSError, and then nothing runs.
    """
    safe, mark = file_safe(name), f"{paths.data_dir_id}:{name}"
    pid_file = paths.run / f"{safe}.pid"
    reading, writing = os.pipe()
    try:
        popen = subprocess.Popen(
            ["setpriv", "--pdeathsig", death, "--", *argv], stdin=subprocess.DEVNULL, stdout=writing, stderr=writing,
            env=child_environment(os.environ, mark, extra), pass_fds=tuple(pass_fds),
            start_new_session=True, cwd=paths.data_dir)
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    try:
        output = Output(os.fdopen(reading, "rb", buffering=0), paths.run / f"{file_safe(log_as or name)}.log")
        process = Process(name, mark, popen, output, [pid_file, *files])
        pid_file.write_text(f"{popen.pid} {processes.start_time(popen.pid)}\n")
        threading.Thread(target=process.watch, args=(on_exit,), name=f"end of {name}", daemon=True).start()
    except (OSError, RuntimeError) as error:  # a full disk, or no thread to be had: it must not run unwatched
        with suppress(OSError):
            os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()
        raise error if isinstance(error, OSError) else OSError(str(error)) from error
    return process
