"""The machine check on recorded machines."""

from pathlib import Path

import pytest

from blazar.doctor.check import Surroundings
from blazar.doctor.machine import check_machine
from blazar.hardware.census import read_census
from blazar.paths import locate

CENSUS = Path(__file__).parents[2] / "data" / "census"


@pytest.mark.parametrize(("machine", "found"), [
    ("no-gpu", "251.8 GiB memory"),
    ("two-24", "60.0 GiB memory, NVIDIA GeForce RTX 3090 with 24.0 GiB, NVIDIA GeForce RTX 3090 with 24.0 GiB"),
    ("container-4gib", "4.0 GiB memory by a limit of its control group"),
    ("unified-arm", "119.7 GiB memory, NVIDIA GB10 without memory of its own that is known"),
    ("amd-apu", "124.0 GiB memory, Radeon 8060S Graphics without memory of its own that is known"),
])
def test_what_is_told_of_a_machine(tmp_path, machine, found):
    census = read_census(CENSUS / f"{machine}.json")
    finding = check_machine(Surroundings(locate({"HOME": str(tmp_path)}), {}, None, census))
    assert (finding.state, finding.found) == ("ok", found)


def test_this_machine(tmp_path):
    assert " memory" in check_machine(Surroundings(locate({"HOME": str(tmp_path)}), {})).found
