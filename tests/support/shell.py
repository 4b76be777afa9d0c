"""A person with an empty home, who types `blazar` and may have a daemon running there."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from blazar.paths import Paths
from tests.support.daemon import STUB_ENGINE
from tests.support.real_engine import engine_path
from tests.support.stub_model import install_stub

BLAZAR = os.environ.get("TESTED_BLAZAR", "").split() or [sys.executable, "-m", "blazar.cli.main"]
"""The command: that of an installed package where TESTED_BLAZAR names one."""


class Shell:
    """`shell("list")` runs the verb; the daemon of `start` is the real one, with the real gateway and engine.

    The configuration names a port on which nobody listens, so that nothing here meets a daemon of this machine.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BLAZAR_", "XDG_"))}
        self.env = {**kept, "HOME": str(home), "PYTHONPATH": os.getcwd()}
        self.config = home / ".config" / "blazar" / "config.toml"
        self.config.parent.mkdir(parents=True)
        self.config.write_text(f"port = {free_port()}\n")
        self.daemon: subprocess.Popen[str] | None = None
        self.url = ""

    def __call__(self, *arguments: str, stdin: str = "", **env: str) -> "subprocess.CompletedProcess[str]":
        """Run a verb to its end. No verb may ever show a traceback."""
        done = subprocess.run([*BLAZAR, *arguments], env={**self.env, **env}, input=stdin, capture_output=True,
                              text=True, timeout=60)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def ok(self, *arguments: str, stdin: str = "", **env: str) -> str:
        """What a verb printed, which must have ended with 0."""
        done = self(*arguments, stdin=stdin, **env)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def find_engine(self) -> None:
        """Let what is started from here find the real engine."""
        engine = engine_path()
        self.env |= {"BLAZAR_ENGINE_PATH": engine} if engine else {}

    def start(self) -> None:
        """Start the daemon on any free port and wait until it says that it listens."""
        self.serve(0)

    def serve(self, port: int) -> None:
        """The same on this port."""
        self.find_engine()
        self.daemon = subprocess.Popen([*BLAZAR, "serve", "--port", str(port)], env=self.env, stdout=subprocess.PIPE,
                                       text=True)
        assert self.daemon.stdout is not None
        line = self.daemon.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line
        self.url = found[0]

    def kill(self) -> None:
        """End the daemon with SIGKILL."""
        assert self.daemon is not None and self.daemon.stdout is not None
        self.daemon.kill()
        self.daemon.wait(timeout=20)
        self.daemon.stdout.close()
        self.daemon = None

    def stop(self) -> None:
        if self.daemon is not None:
            daemon, self.daemon = self.daemon, None
            daemon.terminate()
            assert daemon.stdout is not None
            daemon.stdout.close()
            assert daemon.wait(timeout=20) == 0


class StubShell(Shell):
    """Its daemon has the stub engine, and a model `m` for that."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self.paths = Paths(home / ".local" / "share" / "blazar").ensure()
        install_stub(self.paths, "m", home)

    def find_engine(self) -> None:
        self.env["BLAZAR_ENGINE_PATH"] = str(STUB_ENGINE)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
