"""The engine check, with programs made on the spot."""

from blazar.doctor.check import Surroundings
from blazar.doctor.engines import check_engine, check_lanes
from blazar.engines.builds import Builds
from blazar.models.base import close_database
from blazar.models.engine import Engine
from blazar.paths import locate
from blazar.store.store import Store
from tests.support.programs import program as made


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


def with_build(tmp_path, there=True, config=""):
    """A home whose data dir has one build in use."""
    paths = locate({"HOME": str(tmp_path)}).paths
    Store(paths).list()
    if there:
        made(paths.engines / "b7" / "llama-server")
    Builds(paths).every()
    Engine.put(kind="llamacpp", tag="b7", path="engines/b7/llama-server", flavour="cpu", source="a release",
               installed_at="2026-01-02T03:04:05Z", active=True)
    close_database()
    file = tmp_path / ".config/blazar/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(config)
    return paths.data_dir


def test_the_build_in_use_is_named(tmp_path):
    folder = with_build(tmp_path)
    finding = find(tmp_path)
    assert (finding.state, finding.found) == ("ok", f"llamacpp: the build b7, {folder}/engines/b7/llama-server")


def test_a_build_whose_program_is_gone_fails(tmp_path):
    with_build(tmp_path, there=False)
    finding = find(tmp_path)
    assert finding.state == "fail" and "b7 cannot serve a model" in finding.found
    assert "blazar engine use TAG" in finding.remedy


def test_a_pin_that_names_nothing_fails(tmp_path):
    with_build(tmp_path, config='[model_overrides.solo]\nengine = "b9"\n')
    finding = find(tmp_path)
    assert finding.state == "fail" and "solo is pinned to the engine 'b9'" in finding.found
    assert "installed are b7" in finding.found


def test_a_pin_to_a_fork_is_no_fault(tmp_path):
    folder = with_build(tmp_path, config='[model_overrides.solo]\nengine = "fork-x"\n')
    made(folder / "engines" / "fork-x" / "llama-server")
    Builds(locate({"HOME": str(tmp_path)}).paths).every()
    Engine.put(kind="llamacpp-fork", tag="fork-x", path="engines/fork-x/llama-server", flavour="cpu", source="a lane",
               installed_at="2026-01-02T03:04:05Z")
    close_database()
    finding = find(tmp_path)
    assert (finding.state, finding.found) == ("ok", f"llamacpp: the build b7, {folder}/engines/b7/llama-server")


def test_lanes_and_one_that_has_lost_its_program(tmp_path):
    def lanes():
        return check_lanes(Surroundings(locate({"HOME": str(tmp_path)}), {}))
    assert lanes().found == "llamacpp; not in this version: sglang, mlx, mistralrs, whisper, sdcpp"
    folder = with_build(tmp_path)
    file = made(folder / "engines" / "fork-x" / "llama-server")
    Builds(locate({"HOME": str(tmp_path)}).paths).every()
    Engine.put(kind="llamacpp-fork", tag="fork-x", path="engines/fork-x/llama-server", flavour="cpu", source="a lane",
               installed_at="2026-01-02T03:04:05Z")
    close_database()
    assert lanes().found.startswith("llamacpp, fork-x; not")
    file.unlink()
    finding = lanes()
    close_database()
    assert finding.state == "warn" and "`blazar engine remove fork-x`" in finding.remedy
