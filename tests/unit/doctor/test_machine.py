"""The machine check on recorded machines."""

from pathlib import Path

import pytest

from blazar.doctor.check import Surroundings
from blazar.doctor.machine import check_machine
from blazar.hardware.census import Census, read_census
from blazar.hardware.cpu import Cpu
from blazar.hardware.device import Device
from blazar.hardware.memory import Memory
from blazar.paths import locate

CENSUS = Path(__file__).parents[2] / "data" / "census"


@pytest.mark.parametrize(("machine", "state", "found"), [
    ("no-gpu", "ok", "251.8 GiB memory"),
    ("two-24", "ok", "60.0 GiB memory, NVIDIA GeForce RTX 3090 with 24.0 GiB, NVIDIA GeForce RTX 3090 with 24.0 GiB"),
    ("container-4gib", "ok", "4.0 GiB memory by a limit of its control group"),
    ("unified-arm", "ok", "119.7 GiB memory, NVIDIA GB10 without memory of its own that is known"),
    ("amd-apu", "ok", "124.0 GiB memory, Radeon 8060S Graphics without memory of its own that is known"),
    ("driver-missing", "warn", "no driver works with 10de:1db6 at 0000:5a:00.0, 10de:1db6 at 0000:5e:00.0"),
])
def test_what_is_told_of_a_machine(tmp_path, machine, state, found):
    census = read_census(CENSUS / f"{machine}.json")
    finding = check_machine(Surroundings(locate({"HOME": str(tmp_path)}), {}, None, census))
    assert finding.state == state and found in finding.found
    assert (state == "ok") is (finding.remedy == "")
    assert state == "ok" or "nvidia-driver" in finding.remedy


@pytest.mark.parametrize(("bus", "driver", "memory", "state"), [
    ("0000:03:00.0", "i915", None, "warn"), ("0000:03:00.0", "i915", 16 << 30, "ok"),
    ("0000:03:00.0", "xe", 16 << 30, "ok"), ("0000:00:02.0", "i915", None, "ok")])
def test_a_card_whose_driver_does_not_tell_its_memory(tmp_path, bus, driver, memory, state):
    gpu = Device("intel", bus, "Arc A770", driver, memory, id="8086:56a0")
    finding = check_machine(Surroundings(locate({"HOME": str(tmp_path)}), {}, None,
                                         Census(Cpu("x86_64"), Memory(8 << 30), (gpu,))))
    assert finding.state == state
    if state == "warn":
        assert "i915 does not tell the memory of Arc A770, so plans count main memory alone" in finding.found
        assert "i915.force_probe=!56a0 xe.force_probe=56a0" in finding.remedy


def test_this_machine(tmp_path):
    assert " memory" in check_machine(Surroundings(locate({"HOME": str(tmp_path)}), {})).found
