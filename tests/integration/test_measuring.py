"""`blazar bench`: the engine that would serve the model is measured, with its own llama-bench or its server."""

import json

import pytest

from blazar.models.base import close_database
from blazar.paths import Paths
from blazar.store.store import Store
from tests.support.engine_builds import embedded_script
from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf
from tests.support.tool_stubs import put_build, tool


@pytest.fixture
def shell(tmp_path):
    """b1 is in use and has no llama-bench; b2 has one."""
    shell = Shell(tmp_path / "home")
    shell.ok("pull", str(tiny_gguf(tmp_path / "tiny.gguf")), "--name", "tiny")
    paths = Paths(shell.home / ".local/share/blazar")
    Store(paths).list()
    server = put_build(paths, "b1", active=True) / "llama-server"
    server.write_bytes(embedded_script("b1"))
    server.chmod(0o755)
    tool(put_build(paths, "b2"), "llama-bench")
    close_database()
    return shell


def bench(shell, *options):
    """Engine and method of each figure."""
    rows = json.loads(shell.ok("bench", "tiny", "--prompt", "16", "--generate", "4", "--runs", "1", "--json", *options))
    return {(row["engine"], row["method"]) for row in rows}


def test_the_build_in_use_is_measured_by_its_server_when_it_has_no_tool(shell):
    assert bench(shell) == {("b1", "http")}


def test_a_build_that_is_named_or_pinned_is_measured(shell):
    assert bench(shell, "--build", "b2") == {("b2", "llama-bench")}
    shell.config.write_text(shell.config.read_text() + '[model_overrides.tiny]\nengine = "b1"\n')
    assert bench(shell) == {("b1", "http")}
    shell.config.write_text(shell.config.read_text().replace('"b1"', '"b9"'))
    refused = shell("bench", "tiny")
    assert refused.returncode == 1 and "is pinned to the engine 'b9'" in refused.stderr
