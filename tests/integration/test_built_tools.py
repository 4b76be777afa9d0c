"""The real tools of llama.cpp, as `make test-engines` builds them, behind the verbs that use them."""

import json
import subprocess

import pytest

from tests.support.built_engines import built
from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf
from tests.support.tiny_split import split

pytestmark = pytest.mark.built


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "home")
    shell.env["BLAZAR_ENGINE_PATH"] = str(built("llama-server").parent)
    shell.ok("pull", str(tiny_gguf(tmp_path / "tiny.gguf")), "--name", "tiny:f32")
    return shell


def test_a_quantised_model_is_smaller_and_answers(shell, tmp_path):
    said = shell.ok("quantize", "tiny:f32", "q8_0")
    assert said.startswith("installed tiny:q8_0, 144.5 KiB instead of 513.1 KiB; try it with `blazar run tiny:q8_0 ")
    models = {model["name"]: model for model in json.loads(shell.ok("list", "--json"))}
    assert models["tiny:q8_0"]["details"]["quantization_level"] == "Q8_0"
    assert models["tiny:q8_0"]["size"] < models["tiny:f32"]["size"] / 3
    subprocess.run([built("llama-bench"), "-m", blob(shell, "tiny:q8_0"), "-p", "8", "-n", "4", "-r", "1"], check=True,
                   capture_output=True)
    assert shell.ok("quantize", "tiny:f32", "q8_0") == "tiny:q8_0 is installed already\n"


def test_the_same_source_gives_the_same_file(shell):
    shell.ok("quantize", "tiny:f32", "q4_0")
    shell.ok("quantize", "tiny:f32", "q4_0", "--name", "again")
    assert blob(shell, "tiny:q4_0") == blob(shell, "again:q4_0")


def test_a_split_set_becomes_one_file(shell, tmp_path):
    (tmp_path / "parts").mkdir()
    first = split(tmp_path / "tiny.gguf", tmp_path / "parts", 3)[0]
    shell.ok("pull", str(first), "--name", "set:f32")
    shell.ok("quantize", "tiny:f32", "q8_0")
    shell.ok("quantize", "set:f32", "q8_0")
    assert blob(shell, "set:q8_0").stat().st_size == blob(shell, "tiny:q8_0").stat().st_size
    shown = json.loads(shell.ok("show", "set:q8_0", "--json"))
    assert "Q8_0" in json.dumps(shown) and "split.count" not in json.dumps(shown)


def test_what_the_real_tool_refuses_is_told(shell, tmp_path):
    (tmp_path / "matrix").write_text("no importance at all")
    refused = shell("quantize", "tiny:f32", "q4_0", "--imatrix", str(tmp_path / "matrix"))
    assert refused.returncode == 1
    assert "could not quantise tiny:f32 as Q4_0: it ended with exit code 1; it said: " in refused.stderr
    assert [model["name"] for model in json.loads(shell.ok("list", "--json"))] == ["tiny:f32"]


def test_figures_are_measured_and_kept(shell):
    rows = json.loads(shell.ok("bench", "tiny:f32", "--prompt", "16", "--generate", "8", "--runs", "2", "--json"))
    assert [(row["task"], row["tokens"], row["runs"], row["method"]) for row in rows] == [
        ("prompt", 16, 2, "llama-bench"), ("generate", 8, 2, "llama-bench")]
    assert all(row["rate"] > 1 and row["conditions"]["build_number"] == 11434 for row in rows)
    assert json.loads(shell.ok("bench", "tiny:f32", "--history", "--json")) == rows[::-1]
    assert shell.ok("bench", "tiny:f32", "--history").splitlines()[0].split()[:3] == ["TASK", "TOKENS", "TOKENS/S"]


def blob(shell, name):
    """The path of a model's file."""
    digest = next(model["digest"] for model in json.loads(shell.ok("list", "--json")) if model["name"] == name)
    return shell.home / ".local/share/blazar/models/blobs" / f"{digest.removeprefix('sha256:')}.gguf"
