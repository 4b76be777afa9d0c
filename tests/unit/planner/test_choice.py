"""Which build is taken when nobody asks for one. Tables."""

import pytest

from blazar.errors import NothingFits
from blazar.hardware.census import Census
from blazar.hardware.cpu import Cpu
from blazar.hardware.device import Device
from blazar.hardware.memory import Memory
from blazar.planner.choice import choose
from blazar.store.huggingface import Build, RemoteFile

GIB = 1 << 30


def build(label: str, gib: float, parts: int = 1) -> Build:
    return Build(label, (RemoteFile(f"x-{label}.gguf", int(gib * GIB)),), parts)


BUILDS = [build("Q2_K", 3), build("Q4_K_M", 5), build("Q8_0", 9), build("F16", 17)]
GPU = Device("nvidia", name="RTX 4070", memory=12 * GIB)


def machine(gib: float | None, *gpus: Device) -> Census:
    return Census(Cpu("x86_64"), Memory(total=None if gib is None else int(gib * GIB)), gpus)


LARGEST = "the largest of 4 builds that fits: 80% of this machine's"


@pytest.mark.parametrize(("here", "label", "said"), [
    (machine(64), "F16", f"took f16 (17.0 GiB), {LARGEST} memory is 51.2 GiB"),
    (machine(16), "Q8_0", f"took q8_0 (9.0 GiB), {LARGEST} memory is 12.8 GiB"),
    (machine(4, GPU), "Q8_0", f"took q8_0 (9.0 GiB), {LARGEST} RTX 4070 is 9.6 GiB"),
    (machine(None), "Q4_K_M", "took q4_k_m (5.0 GiB), since this machine does not tell how much memory it has"),
])
def test_the_largest_that_fits(here, label, said):
    build, words = choose("x", BUILDS, here)
    assert (build.quantization, words) == (label, said)


def test_the_only_one_and_incomplete_ones():
    assert choose("x", BUILDS[1:2], machine(16)) == (BUILDS[1], "took q4_k_m (5.0 GiB), the only build there is")
    assert choose("x", [BUILDS[0], build("Q4_0", 4, parts=2)], machine(16))[0] is BUILDS[0]


def test_nothing_fits():
    with pytest.raises(NothingFits) as caught:
        choose("o/r", BUILDS, machine(2))
    assert caught.value.message == (
        "no build of o/r fits this machine: the smallest, q2_k, has 3.0 GiB, and 80% of this machine's memory is 1.6 "
        "GiB; ask for a build by name to have it anyway: `blazar pull o/r:q2_k`")
    assert caught.value.status == 400
