"""Which archive suits which machine; the names are those of llama.cpp's b11211."""

import pytest

from blazar.engines.install.flavour import Machine, choose, flavours
from blazar.engines.install.release import Asset, Release
from blazar.errors import NoAssetHere
from blazar.hardware.census import Census
from blazar.hardware.cpu import Cpu
from blazar.hardware.device import Device
from blazar.hardware.memory import Memory
from blazar.hardware.vulkan import Icd

NAMES = [
    "macos-arm64.tar.gz", "ubuntu-arm64.tar.gz", "ubuntu-cuda-12.8-x64.tar.gz", "ubuntu-cuda-13.4-arm64.tar.gz",
    "ubuntu-cuda-13.4-x64.tar.gz", "ubuntu-openvino-2026.4-x64.tar.gz", "ubuntu-rocm-10.0-x64.tar.gz",
    "ubuntu-s390x.tar.gz", "ubuntu-sycl-fp16-x64.tar.gz", "ubuntu-sycl-fp32-x64.tar.gz", "ubuntu-vulkan-arm64.tar.gz",
    "ubuntu-vulkan-x64.tar.gz", "ubuntu-x64.tar.gz", "win-cpu-x64.zip", "win-cuda-13.4-x64.zip", "win-vulkan-x64.zip",
]


def release(tag: str = "b11211", names: list[str] = NAMES) -> Release:
    wanted = [f"llama-{tag}-bin-{name}" for name in names]
    wanted += [f"cudart-llama-{tag}-bin-{name}" for name in names if "ubuntu-cuda" in name]
    return Release(tag, tuple(Asset(name, f"http://x/{name}", 10, "0" * 64) for name in wanted))


@pytest.mark.parametrize(("machine", "wanted", "flavour"), [
    (Machine("x64"), "auto", "cpu"),
    (Machine("x64", vulkan=True), "auto", "vulkan"),
    (Machine("x64", nvidia_driver=580, vulkan=True), "auto", "cuda-13.4"),
    (Machine("x64", nvidia_driver=550, vulkan=True), "auto", "cuda-12.8"),
    (Machine("x64", nvidia_driver=470, vulkan=True), "auto", "vulkan"),
    (Machine("x64", nvidia_driver=470), "auto", "cpu"),
    (Machine("arm64", nvidia_driver=580), "auto", "cuda-13.4"),
    (Machine("arm64", nvidia_driver=550, vulkan=True), "auto", "vulkan"),
    (Machine("s390x"), "auto", "cpu"),
    (Machine("x64", nvidia_driver=580), "cpu", "cpu"),
    (Machine("x64", nvidia_driver=550), "cuda", "cuda-12.8"),
    (Machine("x64"), "cuda", "cuda-13.4"),
    (Machine("x64", nvidia_driver=550), "cuda-13.4", "cuda-13.4"),
    (Machine("x64"), "rocm", "rocm-10.0"),
    (Machine("x64"), "sycl-fp16", "sycl-fp16"),
])
def test_choices(machine, wanted, flavour):
    choice = choose([release()], wanted, machine)
    assert choice.flavour == flavour
    middle = "" if flavour == "cpu" else f"{flavour}-"
    assert choice.archive.name == f"llama-b11211-bin-ubuntu-{middle}{machine.arch}.tar.gz"
    runtime = [f"cudart-{choice.archive.name}"] if flavour.startswith("cuda") else []
    assert [asset.name for asset in choice.companions] == runtime and choice.size == 10 * (1 + len(runtime))


def test_a_release_that_still_uploads_brings_no_slower_build():
    newest = release("b2", ["ubuntu-x64.tar.gz"])
    choice = choose([newest, release("b1")], "auto", Machine("x64", vulkan=True))
    assert (choice.release.tag, choice.flavour) == ("b1", "vulkan")
    assert choose([newest, release("b1")], "auto", Machine("x64")).release.tag == "b2"
    assert choose([release("b2", ["win-cpu-x64.zip"]), release("b1")], "auto", Machine("x64")).release.tag == "b1"


def test_older_names():
    assert list(flavours(release("b5000", ["ubuntu-x64.zip", "ubuntu-vulkan-x64.zip"]), "x64")) == ["cpu", "vulkan"]


def test_nothing_for_this_machine():
    with pytest.raises(NoAssetHere) as refused:
        choose([release()], "tpu", Machine("x64"))
    assert refused.value.message == (
        "engine release b11211 has no build of the flavour 'tpu' for this machine (x64); it has cpu, cuda-12.8, "
        "cuda-13.4, openvino-2026.4, rocm-10.0, sycl-fp16, sycl-fp32, vulkan: choose one with "
        "`engine_asset = \"...\"`, or build it here with `blazar engine build cpu`")
    with pytest.raises(NoAssetHere, match=r"b11211 has no build that runs for this machine \(mips\); it has none for"):
        choose([release()], "auto", Machine("mips"))
    with pytest.raises(NoAssetHere):
        choose([], "auto", Machine("x64"))


def test_the_machine_of_a_census():
    def known(**more):
        return Machine.of(Census(Cpu(**dict.fromkeys(Cpu.__dataclass_fields__)),
                                 Memory(**dict.fromkeys(Memory.__dataclass_fields__)), **more))

    gpu, icd = (Device("amd"),), (Icd("radeon_icd.x86_64.json"),)
    assert (known().nvidia_driver, known().vulkan) == (None, False)
    assert known(nvidia_driver="550.54.14").nvidia_driver == 550
    assert known(gpus=gpu, vulkan=icd).vulkan is True
    assert known(gpus=gpu, vulkan=(Icd("lvp_icd.x86_64.json"),)).vulkan is False
    assert known(gpus=(), vulkan=icd).vulkan is False
