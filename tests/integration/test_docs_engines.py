"""docs/engines.md says what a person reads: its commands are run in order, and their output compared."""

import re
from pathlib import Path

import pytest

from tests.servers.releases import rate_limited
from tests.support.engine_builds import embedded, slow, tar
from tests.support.engine_shelf import EngineShell, engine_shell
from tests.support.tiny_gguf import tiny_gguf

PAGE = Path(__file__).parent.parent.parent / "docs" / "engines.md"
MODEL = "smollm2-135m:q4_1"


def published(shell: EngineShell, tag: str, content: bytes, **more: str) -> None:
    shell.server.fault = None
    shell.server.release(tag, {"cpu": content}, **more)


def first(shell: EngineShell) -> None:
    published(shell, "b11429", embedded("b11429"))
    shell.server.stable("v0.6.0", "b11429")
    shell.ok("pull", str(tiny_gguf(shell.home / "tiny.gguf")), "--name", MODEL)
    shell.env["BLAZAR_ENGINE_GATE"] = "0.01"  # the same engine twice: chance alone would decide


def with_a_daemon(shell: EngineShell) -> None:
    shell.start()
    shell.ask(MODEL)


def slow_one(shell: EngineShell) -> None:
    shell.env["BLAZAR_ENGINE_GATE"] = "0.9"
    published(shell, "b11440", slow("b11440"))


def tpu(shell: EngineShell) -> None:
    shell.config.write_text('engine_asset = "tpu"\n')


SCENES = {
    "b11429 is published, and v0.6.0 stamps it": first,
    "b11434 is published": lambda shell: published(shell, "b11434", embedded("b11434")),
    "a daemon runs, with the model loaded": with_a_daemon,
    "the daemon has ended": lambda shell: shell.stop(),
    "b11440 is published, and is slow": slow_one,
    "the server has had enough": lambda shell: setattr(shell.server, "fault", rate_limited(1800)),
    "b11441 does not start here": lambda shell: published(shell, "b11441", tar(
        {"l/llama-server": b"#!/bin/sh\necho 'error while loading shared libraries: libcuda.so.1'; exit 127\n"})),
    "b11442 is not what was published": lambda shell: published(shell, "b11442", embedded("x"), digest="wrong"),
    "b11443 is hostile": lambda shell: published(shell, "b11443", tar({"../../x": b"1"})),
    "no flavour of that name": tpu,
}


def steps() -> list[tuple[str, str]]:
    """The scenes and the commands of the page, in order; a command comes with the output that it should have."""
    found: list[tuple[str, str]] = []
    for scene, block in re.findall(r"<!-- scene: (.*?) -->|```console\n(.*?)```", PAGE.read_text(), re.DOTALL):
        if scene:
            found.append(("scene", scene))
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            found.append((command, output))
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_page_from_top_to_bottom(tmp_path):
    ran = 0
    with engine_shell(tmp_path) as shell:
        for command, output in steps():
            if command == "scene":
                SCENES[output](shell)
                continue
            words = command.split()
            assert words[:2] == ["blazar", "engine"], command
            done = shell(*words[1:])
            said = done.stderr + done.stdout if words[2] == "update" else done.stdout + done.stderr
            said, output = re.sub(" +", " ", said), re.sub(" +", " ", output)  # columns are as wide as they must
            form = "".join(".*" if piece == "…" else re.escape(piece) for piece in re.split("(…)", output))
            assert re.fullmatch(form, said, re.DOTALL), f"$ {command}\n{said}\n--- the page says:\n{output}"
            ran += 1
    assert ran >= 19


def test_every_scene_is_used():
    assert {scene for kind, scene in steps() if kind == "scene"} == set(SCENES)


def test_settings_and_variables_have_these_defaults():
    from blazar.config.environment import VARIABLES
    from blazar.config.registry import SETTINGS
    text = PAGE.read_text()
    settings = re.findall(r"^\| `([a-z_]+)` \| `?([^`|]+?)`? \|", text, re.MULTILINE)
    assert len(settings) == 6
    for name, default in settings:
        assert str(SETTINGS[name].default) == default, name
    named = re.findall(r"^\| `(BLAZAR_\w+)` \|", text, re.MULTILINE)
    assert len(named) == 5 and set(named) <= set(VARIABLES)
