"""The drivers check on recorded machines, and with files in place of those in /dev."""

from pathlib import Path

import pytest

from blazar.doctor.check import Surroundings
from blazar.doctor.drivers import check_drivers
from blazar.hardware.census import Census, read_census
from blazar.hardware.cpu import Cpu
from blazar.hardware.device import Device
from blazar.hardware.memory import Memory
from blazar.hardware.vulkan import Icd
from blazar.paths import locate

CENSUS = Path(__file__).parents[2] / "data" / "census"
RADV = (Icd("radeon_icd.json"),)


def find(tmp_path, census, elsewhere=True):
    return check_drivers(Surroundings(locate({"HOME": str(tmp_path)}), {}, None, census, elsewhere), tmp_path / "dev")


def machine(*gpus, vulkan=RADV):
    return Census(Cpu("x86_64"), Memory(8 << 30), gpus, vulkan)


@pytest.mark.parametrize(("recorded", "state", "found", "remedy"), [
    ("no-gpu", "ok", "no GPU that needs one", ""), ("two-24", "ok", "nvidia 610.43.03", ""),
    ("amd-apu", "ok", "amdgpu", ""),
    ("driver-missing", "warn", "no driver works with 10de:1db6 at 0000:5a:00.0, 10de:1db6 at 0000:5e:00.0",
     "`sudo apt install nvidia-driver`, restart the machine, then `blazar engine update`")])
def test_recorded_machines(tmp_path, recorded, state, found, remedy):
    finding = find(tmp_path, read_census(CENSUS / f"{recorded}.json"))
    assert finding.state == state and finding.found.startswith(found) and finding.remedy.endswith(remedy)


def test_a_card_with_another_driver_than_one_that_computes(tmp_path):
    finding = find(tmp_path, machine(Device("nvidia", "0000:01:00.0", "RTX 3060", "nouveau")))
    assert (finding.state, finding.found) == ("warn", "no driver works with RTX 3060 at 0000:01:00.0")


def test_cards_without_vulkan(tmp_path):
    gpu = Device("amd", "0000:03:00.0", "RX 7900", "amdgpu", 24 << 30)
    for vulkan in ((), (Icd("lvp_icd.json"),)):
        finding = find(tmp_path, machine(gpu, vulkan=vulkan))
        assert finding.state == "warn" and "there is no Vulkan driver for RX 7900" in finding.found
        assert "`sudo apt install mesa-vulkan-drivers`" in finding.remedy
    assert find(tmp_path, machine(gpu, vulkan=None)).state == "ok", "nobody knows"


@pytest.mark.parametrize(("bus", "driver", "memory", "state"), [
    ("0000:03:00.0", "i915", None, "warn"), ("0000:03:00.0", "i915", 16 << 30, "ok"),
    ("0000:03:00.0", "xe", 16 << 30, "ok"), ("0000:00:02.0", "i915", None, "ok")])
def test_a_card_whose_driver_does_not_tell_its_memory(tmp_path, bus, driver, memory, state):
    finding = find(tmp_path, machine(Device("intel", bus, "Arc A770", driver, memory, id="8086:56a0")))
    assert finding.state == state
    if state == "warn":
        assert "i915 does not tell the memory of Arc A770, so plans count main memory alone" in finding.found
        assert "i915.force_probe=!56a0 xe.force_probe=56a0" in finding.remedy


def test_a_container_that_was_not_given_the_card(tmp_path):
    gpu = Device("nvidia", "0000:01:00.0", "RTX 3060", "nvidia", 12 << 30)
    finding = find(tmp_path, machine(gpu), elsewhere=False)
    assert finding.state == "warn" and f"there is no {tmp_path}/dev/nvidia" in finding.found
    assert "--gpus all" in finding.remedy
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidia0").write_text("")
    assert find(tmp_path, machine(gpu), elsewhere=False).state == "ok"
    assert find(tmp_path, machine(Device("amd", "b", "c", "amdgpu")), elsewhere=False).state == "warn"


def test_a_card_that_this_user_may_not_use(tmp_path):
    (tmp_path / "dev" / "dri").mkdir(parents=True)
    (tmp_path / "dev" / "dri" / "renderD128").symlink_to(tmp_path / "gone")  # root may use every file that is there
    finding = find(tmp_path, machine(Device("intel", "0000:00:02.0", "UHD", "i915")), elsewhere=False)
    assert finding.state == "warn" and "may not use" in finding.found and "renderD128" in finding.found
    assert "`sudo usermod -aG render,video " in finding.remedy
