"""The devices check, with programs made on the spot."""

import pytest

from blazar.doctor.check import Surroundings
from blazar.doctor.devices import check_devices
from blazar.paths import locate
from tests.support.programs import asked, program

LISTS = "--model FILE\n--list-devices  print list of available devices and exit"


def find(tmp_path, flags, then):
    file = program(tmp_path / "bin" / "llama-server", flags, then=then)
    config = tmp_path / ".config/blazar/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text('[engine_env]\nCARD = "CUDA7"\n')
    finding = check_devices(Surroundings(locate({"HOME": str(tmp_path)}),
                                         {"PATH": "/usr/bin:/bin", "BLAZAR_ENGINE_PATH": str(file)}))
    assert (finding.check, finding.state) == ("devices", "ok")
    return finding.found, asked(file)


@pytest.mark.parametrize(("said", "found"), [
    ("Available devices:\n  CUDA0: NVIDIA GeForce RTX 3060 (12036 MiB, 11900 MiB free)\n"
     "  Vulkan1: Intel(R) Arc (1 MiB)",
     "CUDA0 (NVIDIA GeForce RTX 3060), Vulkan1 (Intel(R) Arc)"),
    ("ggml: noise: of a driver\nAvailable devices:\n  (none)", "the engine computes on the CPU only"),
    ("error: invalid argument", "this engine does not name them"), ("", "this engine does not name them")])
def test_devices_are_called_as_the_engine_calls_them(said, found, tmp_path):
    assert find(tmp_path, LISTS, f"printf '%s' '{said}'")[0] == found


def test_the_engine_sees_the_variables_that_children_get(tmp_path):
    assert find(tmp_path, LISTS, "echo 'Available devices:'; echo \"  $CARD: it\"")[0] == "CUDA7 (it)"


def test_an_engine_without_such_a_flag_is_not_asked(tmp_path):
    found, asked_for = find(tmp_path, "--model FILE", "sleep 60")
    assert found == "this engine does not name them" and asked_for == ["--help", "--version"]


def test_without_an_engine_there_is_nothing_to_ask(tmp_path):
    finding = check_devices(Surroundings(locate({"HOME": str(tmp_path)}), {"BLAZAR_ENGINE_PATH": str(tmp_path)}))
    assert (finding.state, finding.found) == ("ok", "no engine that could be asked")
