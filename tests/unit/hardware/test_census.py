"""The whole census: machines with GPUs out of recorded files, saved and read again, and this machine."""

import json
import os
import platform
import sys
from pathlib import Path

import pytest

from blazar.hardware.census import Census, census
from blazar.hardware.cpu import Cpu
from blazar.hardware.device import Device
from blazar.hardware.memory import Memory
from blazar.hardware.nvidia import Nvidia, ask_nvml, read_driver
from blazar.hardware.vulkan import Icd, read_icds
from tests.support.tree import grow

STUBS = Path(__file__).parent.parent.parent / "stubs"


def pci(address, vendor, kind, driver=None, **more):
    folder = f"sys/bus/pci/devices/{address}"
    files = {f"{folder}/vendor": f"{vendor}\n", f"{folder}/class": f"{kind}\n"}
    if driver:
        files[f"{folder}/driver"] = f"-> ../../../bus/pci/drivers/{driver}"
    return {**files, **{f"{folder}/{name}": f"{value}\n" for name, value in more.items()}}


BUS = {
    **pci("0000:00:00.0", "0x8086", "0x060000"),
    **pci("0000:00:02.0", "0x8086", "0x030000", "i915"),
    **pci("0000:00:0b.0", "0x8086", "0x120000", "intel_vpu"),
    **pci("0000:01:00.0", "0x10de", "0x030000", "nvidia"),
    **pci("0000:01:00.1", "0x10de", "0x040300", "snd_hda_intel"),
    **pci("0000:03:00.0", "0x1002", "0x038000", "amdgpu", mem_info_vram_total=17163091968, mem_info_vram_used=63091968),
    **pci("0000:04:00.0", "0x1002", "0x120000"),
    **pci("0000:05:00.0", "0x1a03", "0x030000", "ast"),
}
NVRM = ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\n"
        "GCC version:  gcc version 12.2.0\n")
DRIVER = {"proc/driver/nvidia/version": NVRM, "proc/driver/nvidia/gpus/0000:01:00.0/information":
          "Model: \t\t NVIDIA GeForce RTX 4070\nIRQ:   \t\t 150\n"}
INTEL = Device("intel", "0000:00:02.0", driver="i915")
AMD = Device("amd", "0000:03:00.0", driver="amdgpu", memory=17163091968, free=17100000000)
INSTINCT = Device("amd", "0000:04:00.0")
ASPEED = Device("0x1a03", "0000:05:00.0", driver="ast")


def no_nvml():
    return None


@pytest.fixture
def with_nvml(monkeypatch):
    """A `pynvml` that can be imported, for the length of a test."""
    monkeypatch.syspath_prepend(str(STUBS / "nvml"))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    yield
    sys.modules.pop("pynvml", None)


def test_the_bus_tells_which_gpus_have_a_driver(tmp_path):
    found = census(grow(tmp_path, BUS), no_nvml, "x86_64")
    assert found.gpus == (INTEL, Device("nvidia", "0000:01:00.0", driver="nvidia"), AMD, INSTINCT, ASPEED)
    assert found.nvidia_driver is None and found.cuda is None


def test_without_nvml_the_driver_s_files_tell_version_and_name(tmp_path):
    found = census(grow(tmp_path, {**BUS, **DRIVER}), no_nvml, "x86_64")
    assert found.gpus is not None
    assert found.gpus[1] == Device("nvidia", "0000:01:00.0", "NVIDIA GeForce RTX 4070", "nvidia")
    assert (found.nvidia_driver, found.cuda) == ("550.54.14", None)


def test_the_open_kernel_module_is_read_too(tmp_path):
    text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build\n"
    assert read_driver(grow(tmp_path, {"proc/driver/nvidia/version": text})) == Nvidia("575.57.08")


def test_nvml_tells_memory_and_what_it_does_not_tell_is_unknown(tmp_path, with_nvml):
    found = census(grow(tmp_path, BUS), ask_nvml, "x86_64")
    assert (found.nvidia_driver, found.cuda) == ("550.54.14", "12.4")
    assert found.gpus == (INTEL, Device("nvidia", "0000:01:00.0", "NVIDIA GeForce RTX 4070", "nvidia", 12 << 30,
                                        11 << 30, "8.9"), AMD, INSTINCT, ASPEED, Device("nvidia", "0000:c1:00.0"))


def test_vulkan_drivers(tmp_path):
    icd = '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s", "api_version": "1.3.255"}}'
    root = grow(tmp_path, {
        "etc/vulkan/icd.d/nvidia_icd.json": icd % "libGLX_nvidia.so.0",
        "usr/share/vulkan/icd.d/nvidia_icd.json": icd % "shadowed.so",
        "usr/share/vulkan/icd.d/lvp_icd.x86_64.json": icd % "libvulkan_lvp.so",
        "usr/share/vulkan/icd.d/torn.json": '{"ICD": [',
        "usr/share/vulkan/icd.d/odd.json": '{"ICD": 7}',
        "usr/share/vulkan/icd.d/README": "not a driver"})
    assert read_icds(root) == (Icd("lvp_icd.x86_64.json", "libvulkan_lvp.so", "1.3.255"),
                               Icd("nvidia_icd.json", "libGLX_nvidia.so.0", "1.3.255"), Icd("odd.json"),
                               Icd("torn.json"))
    assert census(root, no_nvml).has_vulkan is True


def test_a_driver_that_computes_on_the_processor_is_no_gpu_s(tmp_path):
    root = grow(tmp_path, {"usr/share/vulkan/icd.d/lvp_icd.x86_64.json": "{}"})
    assert census(root, no_nvml).has_vulkan is False


def test_an_empty_machine_has_no_gpu_and_knows_nothing(tmp_path):
    found = census(tmp_path, no_nvml, "riscv64")
    assert found == Census(Cpu("riscv64"), Memory(), (), ())


def test_folders_that_are_something_else_are_unknown(tmp_path):
    root = grow(tmp_path, {"sys/bus/pci/devices": "a file", "etc/vulkan/icd.d": "a file"})
    found = census(root, no_nvml, "x86_64")
    assert found.gpus is None and found.vulkan is None and found.has_vulkan is None


def test_a_saved_census_comes_back_as_it_was(tmp_path, with_nvml):
    root = grow(tmp_path, {**BUS, **DRIVER, "usr/share/vulkan/icd.d/radeon_icd.x86_64.json": "{}",
                           "proc/cpuinfo": "processor: 0\nflags: avx2 fma\n", "proc/meminfo": "MemTotal: 7 kB\n"})
    for found in (census(root, ask_nvml, "x86_64"), census(tmp_path / "nothing", no_nvml, "arm64")):
        assert Census.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_this_machine():
    found = census()
    assert found.cpu.machine == platform.machine() and found.cpu.threads == os.cpu_count()
    assert found.cpu.allowed == len(os.sched_getaffinity(0))
    assert found.memory.total == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert found.memory.free is not None and 0 < found.memory.free <= found.memory.total
