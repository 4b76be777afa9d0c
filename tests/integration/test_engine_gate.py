"""The gate, the rollback and the daemon beside them, with real engines that really answer."""

import json
import re
import subprocess
import threading

import pytest

from tests.support.engine_builds import embedded, genuine, slow
from tests.support.engine_shelf import engine_shell
from tests.support.shell import BLAZAR
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until

MODEL = "tiny:f32"


@pytest.fixture
def shell(tmp_path):
    """b100 is in use, the daemon runs, and the tiny model is installed."""
    with engine_shell(tmp_path) as shell:
        shell.server.release("b100", {"cpu": embedded("b100")})
        shell.ok("engine", "update")
        shell.ok("pull", str(tiny_gguf(tmp_path / "tiny.gguf")))
        shell.start()
        yield shell


@pytest.mark.debian
def test_a_slower_build_is_refused_with_both_figures_while_the_old_one_answers(shell):
    assert shell.ask(MODEL) == 200 and shell.serving() == {"b100"}
    shell.server.release("b200", {"cpu": slow("b200")})
    update = subprocess.Popen([*BLAZAR, "engine", "update"], env={**shell.env, "BLAZAR_ENGINE_GATE": "0.5"},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(update.stderr))
    reader.start()
    until(lambda: any("comparing b200 with b100" in line for line in said), what="the comparison")
    answers = 0
    while update.poll() is None:
        assert shell.ask(MODEL) == 200 and shell.serving() == {"b100"}
        answers += 1
    reader.join()
    assert update.returncode == 1 and update.stdout.read() == "" and answers > 0
    found = re.fullmatch(
        r"blazar: b200 is not taken into use: b200 writes ([0-9.]+) tokens/s and b100 ([0-9.]+) with tiny:f32, and it "
        r"must reach 50% of that; b100 stays in use; `blazar engine use b200` takes it all the same\n", said[-1])
    assert found, said
    assert float(found[1]) < 200 and float(found[1]) < 0.5 * float(found[2])
    assert shell.rows() == {"b100": True, "b200": False}
    shell.ok("stop", MODEL)
    assert shell.ask(MODEL) == 200 and shell.serving() == {"b100"}
    taken = shell("engine", "use", "b200")
    assert taken.stdout == "b200 (cpu) is in use now; `blazar engine rollback` goes back to b100\n"


@pytest.mark.debian
def test_update_and_rollback_with_two_real_builds(shell):
    """The embedded engine, and a genuine llama-server with its libraries and the links between them."""
    assert shell.ask(MODEL) == 200 and shell.serving() == {"b100"}
    shell.server.release("b200", {"cpu": genuine("b200")})
    done = shell("engine", "update", "--json", BLAZAR_ENGINE_GATE="0.001")
    outcome = json.loads(done.stdout)
    assert (outcome["tag"], outcome["before"]) == ("b200", "b100")
    assert outcome["tokens_per_second"]["old"] > 0 and outcome["tokens_per_second"]["new"] > 0
    assert re.search(r"b200 writes [0-9.]+ tokens/s and b100 [0-9.]+ with tiny:f32", done.stderr)
    assert (shell.data / "engines/b200/llama-b200/libggml.so").is_symlink()
    assert shell.ask(MODEL) == 200 and shell.serving() == {"b100"}  # what is loaded keeps its build
    shell.ok("stop", MODEL)
    assert shell.ask(MODEL) == 200 and shell.serving() == {"b200"}
    back = shell("engine", "rollback")
    assert back.stdout == "b100 (cpu) is in use now; `blazar engine rollback` goes back to b200\n"
    assert back.stderr == f"blazar: {MODEL} keeps the build it was loaded with until it is unloaded (`blazar stop`)\n"
    shell.ok("stop", MODEL)
    assert shell.ask(MODEL) == 200 and shell.serving() == {"b100"}


def test_a_data_dir_that_moves_serves_with_its_own_engine(shell):
    shell.stop()
    moved = shell.home / "moved"
    moved.mkdir()
    shell.data.rename(moved / "blazar")
    shell.data = moved / "blazar"
    shell.env["XDG_DATA_HOME"] = str(moved)
    shell.start()
    assert shell.ask(MODEL) == 200 and shell.serving() == {"b100"}


def test_the_daemon_looks_for_newer_builds_and_installs_none(shell):
    shell.stop()
    shell.server.release("b200", {"cpu": embedded("b200")})
    shell.config.write_text(shell.config.read_text() + "engine_check_secs = 1\n")
    shell.start()
    log = shell.data / "run" / "daemon.log"
    until(lambda: "b100 is in use, and channel latest has b200: `blazar engine update`" in log.read_text(), 20.0)
    assert shell.rows() == {"b100": True} and shell.server.sent(shell.server.releases[0]["assets"][0]["name"]) == 0
    assert "channel latest has b200" in shell("engine", "list").stderr
