"""Whether a file fits: 0.8 of the largest GPU, or of the usable memory."""

import pytest

from blazar.hardware.census import Census
from blazar.hardware.cpu import Cpu
from blazar.hardware.device import Device
from blazar.hardware.memory import Memory
from blazar.planner.fit import Fit, fit

SMALL, LARGE = Device("nvidia", name="RTX 4070", memory=12_000), Device("amd", memory=24_000)
DUMB = Device("intel")


def machine(memory, *gpus):
    return Census(Cpu("x86_64"), memory, gpus)


@pytest.mark.parametrize(("here", "needed", "expected"), [
    (machine(Memory(total=10_000)), 8_000, Fit(8_000, 8_000, 10_000, "memory")),
    (machine(Memory(total=10_000)), 8_001, Fit(8_001, 8_000, 10_000, "memory")),
    (machine(Memory(total=10_000, limit=5_000)), 4_001, Fit(4_001, 4_000, 5_000, "memory")),
    (machine(Memory(total=10_000), SMALL, DUMB), 9_600, Fit(9_600, 9_600, 12_000, "RTX 4070")),
    (machine(Memory(total=10_000), SMALL, LARGE), 19_201, Fit(19_201, 19_200, 24_000, "amd GPU")),
    (machine(Memory(total=64_000), LARGE), 51_200, Fit(51_200, 51_200, 64_000, "memory")),
    (machine(Memory(), DUMB), 10**15, Fit(10**15, None, None, "memory")),
])
def test_fit(here, needed, expected):
    answer = fit(needed, here)
    assert answer == expected
    assert bool(answer) is (answer.limit is None or needed <= answer.limit)


def test_the_answer_is_a_yes_or_a_no_by_itself():
    here = machine(Memory(total=10_000))
    assert fit(8_000, here) and not fit(8_001, here)


def test_unknown_gpus_are_no_gpus():
    assert not fit(8_001, Census(Cpu("x86_64"), Memory(total=10_000), None))
