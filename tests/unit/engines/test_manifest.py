"""Manifests: asked once, kept for exactly this program, never in the way of a load."""

import importlib.util
import json
import os
import sys

import pytest

from blazar.engines.help_text import Flag
from blazar.engines.manifest import Manifest, manifest_of
from blazar.engines.program import EMBEDDED_MODULE, Program
from tests.support.programs import HELP, asked, program


def of(file, cache, **extra):
    return manifest_of(Program("llamacpp", (str(file),), "PATH"), cache, os.environ, extra)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "manifests"


def test_it_is_asked_once_and_then_known(tmp_path, cache):
    file = program(tmp_path / "llama-server", (HELP / "llama-server-b11434.txt").read_text(), "version: 5 (x)")
    first, second = of(file, cache), of(file, cache)
    assert (first.version, len(first.flags), len(first.distinct()), first.problem) == ("5 (x)", 405, 251, "")
    assert first == second and first.distinct() == second.distinct()
    assert second.flags["--ctx-size"] == Flag(("-c", "--ctx-size"), "N")
    assert asked(file) == ["--help", "--version"]
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize("change", [
    lambda file: program(file, "--model FILE\n--other"),
    lambda file: os.utime(file, (1, 1)),
    lambda file: (file.parent / "libllama.so").write_text("another build"),
])
def test_a_program_that_changed_is_asked_again(tmp_path, cache, change):
    file = program(tmp_path / "bin" / "llama-server")
    (file.parent / "libllama.so").write_text("a build")
    of(file, cache)
    change(file)
    of(file, cache)
    assert asked(file) == ["--help", "--version"] * 2
    assert of(file, cache) and len(asked(file)) == 4 and len(list(cache.iterdir())) == 1


def test_a_link_that_points_elsewhere_is_asked_again(tmp_path, cache):
    one = program(tmp_path / "one" / "llama-server", "--one")
    two = program(tmp_path / "two" / "llama-server", "--two")
    link = tmp_path / "llama-server"
    link.symlink_to(one)
    assert set(of(link, cache).flags) == {"--one"}
    link.unlink()
    link.symlink_to(two)
    assert set(of(link, cache).flags) == {"--two"}


@pytest.mark.parametrize("spoilt", ["", "{", "[]", '{"identity": 1}', "\ud800".encode("utf-8", "surrogatepass")])
def test_a_spoilt_file_counts_as_none(tmp_path, cache, spoilt):
    file = program(tmp_path / "llama-server")
    before = of(file, cache)
    (kept,) = cache.iterdir()
    kept.write_bytes(spoilt if isinstance(spoilt, bytes) else spoilt.encode())
    assert of(file, cache) == before
    assert json.loads(kept.read_text())["version"] == "1 (abc)"


def test_where_nothing_can_be_written_it_is_asked_each_time(tmp_path):
    file = program(tmp_path / "llama-server")
    (tmp_path / "taken").write_text("a file")
    for cache in (tmp_path / "taken", tmp_path / "no" / "such" / "folder"):
        assert set(of(file, cache).flags) == {"--model"}
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(("then", "problem"), [
    ("#!/bin/sh\nexit 1\n", "its --help names no flag"),
    ("#!/bin/sh\necho\necho cannot open libllama.so >&2\necho\nexit 127\n",
     "its --help names no flag, but says: cannot open libllama.so"),
])
def test_a_program_that_tells_nothing_lets_every_flag_pass(tmp_path, cache, then, problem):
    file = tmp_path / "llama-server"
    file.write_text(then)
    file.chmod(0o755)
    manifest = of(file, cache)
    assert manifest == Manifest(problem=problem)
    assert manifest.has("--anything") and manifest.takes("--anything", "x")
    assert not cache.exists()


def test_a_missing_program_is_no_crash(tmp_path, cache):
    assert "No such file" in of(tmp_path / "gone", cache).problem


def test_what_a_manifest_says_of_flags_and_values():
    mode = Flag(("-m", "--mode"), "{a,b}", ("a", "b"))
    manifest = Manifest("1", {"-m": mode, "--mode": mode, "--free": Flag(("--free",), "N")})
    assert manifest.has("-m") and not manifest.has("--none")
    assert manifest.takes("--mode", "a") and not manifest.takes("--mode", "c")
    assert manifest.takes("--mode", "a,c") and manifest.takes("--free", "7") and manifest.takes("--none", "x")


def test_engine_env_reaches_the_program(tmp_path, cache):
    file = tmp_path / "llama-server"
    file.write_text('#!/bin/sh\necho "--$GGML_X"\n')
    file.chmod(0o755)
    assert set(of(file, cache, GGML_X="seen").flags) == {"--seen"}


def test_the_embedded_engine_tells_its_own_flags(cache):
    embedded = Program("llamacpp", (sys.executable, *EMBEDDED_MODULE), "embedded")
    manifest = manifest_of(embedded, cache)
    assert {"--model", "--host", "--port", "--api-key-file", "-c", "--ctx-size", "-np", "--jinja", "--embeddings",
            "--pooling", "--batch-size", "--alias"} <= set(manifest.flags)
    assert manifest.flags["--pooling"].choices == ("none", "mean", "cls", "last", "rank")
    assert manifest.version is not None and manifest.version.startswith("xllamacpp ")
    assert ("is not installed" in manifest.version) is (importlib.util.find_spec("xllamacpp") is None)
    assert manifest_of(embedded, cache) == manifest
