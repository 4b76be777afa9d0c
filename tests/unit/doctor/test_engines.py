"""The engine check, with programs made on the spot."""

from blazar.doctor.check import Surroundings
from blazar.doctor.engines import check_engine
from blazar.paths import locate


def find(tmp_path, **env):
    return check_engine(Surroundings(locate({"HOME": str(tmp_path)}), {"PATH": str(tmp_path / "empty"), **env}))


def program(tmp_path, mode=0o755):
    file = tmp_path / "llama-server"
    file.write_text("#!/bin/sh\n")
    file.chmod(mode)
    return file


def test_a_llama_server_on_the_path_is_named(tmp_path):
    file = program(tmp_path)
    finding = find(tmp_path, PATH=str(tmp_path))
    assert (finding.state, finding.found) == ("ok", f"llamacpp: {file}, by PATH")


def test_a_named_engine_is_taken(tmp_path):
    file = program(tmp_path)
    finding = find(tmp_path, BLAZAR_ENGINE_PATH=str(tmp_path))
    assert (finding.state, finding.found) == ("ok", f"llamacpp: {file}, by BLAZAR_ENGINE_PATH")


def test_a_named_engine_that_cannot_run_fails(tmp_path):
    program(tmp_path, mode=0o644)
    finding = find(tmp_path, BLAZAR_ENGINE_PATH=str(tmp_path / "llama-server"))
    assert finding.state == "fail" and "not executable" in finding.found
