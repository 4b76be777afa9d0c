"""`blazar engine list` and `show`, typed by a person."""

import json

import pytest

from blazar.cli.commands.engine import Engine as EngineVerb
from blazar.cli.main import parse
from blazar.engines.builds import Builds
from blazar.models.base import close_database
from blazar.models.engine import Engine
from blazar.paths import Paths
from blazar.store.store import Store
from tests.support.programs import HELP, asked, program
from tests.support.shell import Shell


@pytest.fixture
def shell(tmp_path):
    return Shell(tmp_path / "home")


@pytest.fixture
def data_dir(shell):
    """One build, in use and pinned."""
    paths = Paths(shell.home / ".local/share/blazar")
    Store(paths).list()
    Builds(paths).every()
    program(paths.engines / "b7" / "llama-server", (HELP / "llama-server-b11434.txt").read_text(), "version: 7 (abc)")
    Engine.put(kind="llamacpp", tag="b7", path="engines/b7/llama-server", flavour="cpu", source="a release",
               sha256="e" * 64, installed_at="2026-01-02T03:04:05Z", active=True, pinned=True, turn=1)
    close_database()
    return paths.data_dir


@pytest.mark.parametrize("verb", EngineVerb.subverbs, ids=lambda verb: verb.name)
def test_every_sub_verb_has_examples_that_parse(verb):
    assert verb.examples and verb.help and verb.about
    for example in verb.examples:
        args = parse(example[example.index("blazar "):].split()[1:])
        assert (args.command.name, args.subverb.name) == ("engine", verb.name)


def test_without_a_data_dir_there_is_nothing_and_nothing_is_made(shell):
    done = shell("engine", "list")
    assert done.returncode == 0 and done.stdout.startswith("TAG ")
    assert "blazar: no engine build is installed; `blazar engine update` gets the newest" in done.stderr
    done = shell("engine", "show", "b7")
    assert done.returncode == 1 and "there is no engine build 'b7' here" in done.stderr
    assert not (shell.home / ".local").exists()


def test_the_list(shell, data_dir):
    lines = shell.ok("engine", "ls").splitlines()
    assert lines[1].split() == ["b7", "llamacpp", "cpu", "active,", "pinned", "2026-01-02", "a", "release"]
    listed = json.loads(shell.ok("engine", "list", "--json"))
    assert listed[0] == {"tag": "b7", "kind": "llamacpp", "flavour": "cpu", "active": True, "pinned": True,
                         "path": str(data_dir / "engines/b7/llama-server"), "source": "a release", "sha256": "e" * 64,
                         "installed_at": "2026-01-02T03:04:05Z"}


def test_a_build_in_full(shell, data_dir):
    file = data_dir / "engines/b7/llama-server"
    facts = dict(line.split(maxsplit=1) for line in shell.ok("engine", "show", "b7").splitlines()[1:])
    assert facts == {"tag": "b7", "kind": "llamacpp", "flavour": "cpu", "version": "7 (abc)", "active": "yes",
                     "pinned": "yes", "path": str(file), "source": "a release", "sha256": "e" * 64,
                     "installed": "at  2026-01-02T03:04:05Z", "flags": "251"}
    rows = shell.ok("engine", "show", "b7", "--flags").splitlines()
    assert len(rows) == 252 and rows[0].split() == ["FLAG", "VALUE"]
    shown = {names: value.strip() for names, _, value in (row.partition("  ") for row in rows)}
    assert shown["--pooling"] == "none, mean, cls, last, rank"
    assert (shown["-c, --ctx-size"], shown["--swa-full"]) == ("N", "")
    told = json.loads(shell.ok("engine", "show", "b7", "--json"))
    assert {"names": ["-c", "--ctx-size"], "value": "N", "choices": []} in told["flags"]
    assert (told["version"], told["problem"], len(told["flags"])) == ("7 (abc)", None, 251)
    assert asked(file) == ["--help", "--version"]


def test_a_build_that_tells_nothing(shell, data_dir):
    (data_dir / "engines/b7/llama-server").unlink()
    facts = shell.ok("engine", "show", "b7")
    assert "No such file" in facts and "version" not in facts


def test_the_local_lane_and_one_that_is_wrong(shell, data_dir, tmp_path):
    local = program(tmp_path / "mine" / "llama-server")
    assert "\nlocal " in shell.ok("engine", "list", BLAZAR_ENGINE_PATH=str(local.parent))
    assert "1 (abc)" in shell.ok("engine", "show", "local", BLAZAR_ENGINE_PATH=str(local))
    done = shell("engine", "list", BLAZAR_ENGINE_PATH="/no/where")
    assert done.returncode == 0 and "\nlocal" not in done.stdout and "BLAZAR_ENGINE_PATH is /no/where" in done.stderr
