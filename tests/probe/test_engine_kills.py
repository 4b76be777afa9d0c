"""kill -9 in the middle of an engine update: the build in use stays, nothing half is seen, the next update ends it."""

import contextlib
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from tests.support.engine_builds import embedded, embedded_script, noise, slow, tar
from tests.support.engine_shelf import engine_shell
from tests.support.shell import BLAZAR
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until


@pytest.fixture
def shell(tmp_path):
    with engine_shell(tmp_path) as shell:
        shell.server.release("b100", {"cpu": embedded("b100")})
        shell.ok("engine", "update")
        shell.server.requests.clear()
        yield shell


def start(shell, **env) -> "subprocess.Popen[str]":
    return subprocess.Popen([*BLAZAR, "engine", "update"], env={**shell.env, **env}, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, start_new_session=True)


def kill(update: "subprocess.Popen[str]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(update.pid, signal.SIGKILL)
    update.communicate()


def intact(shell) -> None:
    assert shell.rows()["b100"] is True
    program = shell.data / "engines/b100/llama-b100/llama-server"
    assert program.read_bytes() == embedded_script("b100")
    for folder in shell.folders() - {"b100"}:  # placed a moment before its row
        assert (shell.data / "engines" / folder / "l" / "x").stat().st_size == 3_000_000


def test_at_random_bytes_of_the_download(shell):
    content = tar({"l/llama-server": embedded_script("b200"), "l/x": noise(3_000_000)})
    file = shell.server.release("b200", {"cpu": content})["cpu"]
    file.rate = 4_000_000.0
    chance = random.Random(7)
    for offset in sorted(chance.sample(range(len(content)), 6)):
        update = start(shell)
        until(lambda offset=offset: shell.server.archive_bytes() >= offset, what=f"byte {offset}")
        kill(update)
        intact(shell)
        assert shell.rows() == {"b100": True} and shell.folders() == {"b100"}
    file.rate = None
    assert "b200 (cpu) is in use now" in shell.ok("engine", "update")
    assert shell.rows() == {"b100": False, "b200": True} and shell.leftovers() == set()
    assert (shell.data / "engines/b200/l/x").stat().st_size == 3_000_000
    assert shell.server.archive_bytes() < 2.5 * len(content)  # it went on where it was killed, less what was in flight


def test_at_random_moments_after_the_download(shell):
    content = tar({"l/llama-server": embedded_script("b200"), "l/x": noise(3_000_000)})
    shell.server.release("b200", {"cpu": content})
    chance = random.Random(11)
    for _ in range(6):
        before = len(shell.server.questions())
        update = start(shell)
        until(lambda before=before: len(shell.server.questions()) > before)
        time.sleep(chance.uniform(0.0, 0.4))  # no state to wait for: any moment will do
        kill(update)
        if shell.rows().get("b200"):
            shell.ok("engine", "use", "b100")
        intact(shell)
    shell.ok("engine", "update")
    assert shell.rows() == {"b100": False, "b200": True} and shell.folders() == {"b100", "b200"}
    assert shell.leftovers() == set()


@pytest.mark.debian
def test_while_the_gate_measures(shell, tmp_path):
    with tempfile.TemporaryDirectory(prefix="bz-") as short:  # an engine's socket in it has a short path
        gate_measures(shell, tmp_path, Path(short))


def gate_measures(shell, tmp_path: Path, temporary: Path) -> None:
    shell.env["TMPDIR"] = str(temporary)
    shell.ok("pull", str(tiny_gguf(tmp_path / "tiny.gguf")))
    shell.server.release("b200", {"cpu": slow("b200", 50)})
    update = start(shell, BLAZAR_ENGINE_GATE="0.9")
    until(lambda: measuring(shell.data), 30.0, "the new build at work")
    kill(update)
    until(lambda: not measuring(shell.data), what="the end of what was measured")
    assert shell.rows() == {"b100": True, "b200": False}
    assert len(list(temporary.glob("blazar-engine-*"))) == 1
    assert shell("engine", "update", BLAZAR_ENGINE_GATE="0.9").returncode == 1
    assert list(temporary.glob("blazar-engine-*")) == []
    assert shell.ok("engine", "update").startswith("b200 (cpu) is in use now")


def measuring(data: Path) -> list[str]:
    """Processes that run with a model of this data dir."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and f"{data}/models/blobs".encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
    return found
