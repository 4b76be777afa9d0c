"""The whole census: machines with GPUs out of recorded files, saved and read again, and this machine."""

import json
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from blazar.errors import CensusRefused
from blazar.hardware.census import Census, census, read_census
from blazar.hardware.cpu import Cpu
from blazar.hardware.device import Device
from blazar.hardware.memory import Memory
from blazar.hardware.numa import Node
from blazar.hardware.nvidia import Nvidia, ask_nvml, read_driver
from blazar.hardware.vulkan import Icd, read_icds
from blazar.planner.demand import Demand
from blazar.planner.machine import machine_of
from blazar.planner.planner import plan
from blazar.store.shape import Layer, Shape
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
    known = {"compute": "8.9", "uuid": "GPU-dee1e25b-b3b5-007e-2b55-79f2d0f2ebe5"}
    assert found.gpus == (INTEL, Device("nvidia", "0000:01:00.0", "NVIDIA GeForce RTX 4070", "nvidia", 12 << 30,
                                        11 << 30, **known), AMD, INSTINCT, ASPEED, Device("nvidia", "0000:c1:00.0"))


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
    assert found == Census(Cpu("riscv64"), Memory(), (), (), nodes=())


def test_folders_that_are_something_else_are_unknown(tmp_path):
    root = grow(tmp_path, {"sys/bus/pci/devices": "a file", "etc/vulkan/icd.d": "a file"})
    found = census(root, no_nvml, "x86_64")
    assert found.gpus is None and found.vulkan is None and found.has_vulkan is None


def test_a_saved_census_comes_back_as_it_was(tmp_path, with_nvml):
    root = grow(tmp_path, {**BUS, **DRIVER, "usr/share/vulkan/icd.d/radeon_icd.x86_64.json": "{}",
                           "proc/cpuinfo": "processor: 0\nflags: avx2 fma\n", "proc/meminfo": "MemTotal: 7 kB\n",
                           "sys/devices/system/node/node0/cpulist": "0-3\n"})
    hidden = {"CUDA_VISIBLE_DEVICES": "1", "HOME": "/root"}
    for found in (census(root, ask_nvml, "x86_64", hidden), census(tmp_path / "nothing", no_nvml, "arm64")):
        assert Census.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_this_machine():
    found = census()
    assert found.cpu.machine == platform.machine() and found.cpu.threads == os.cpu_count()
    assert found.cpu.allowed == len(os.sched_getaffinity(0))
    assert found.memory.total == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert found.memory.free is not None and 0 < found.memory.free <= found.memory.total


def test_memory_nodes_are_in_their_order(tmp_path):
    folder = "sys/devices/system/node"
    found = census(grow(tmp_path, {
        f"{folder}/node0/cpulist": "0-15,32-47\n",
        f"{folder}/node0/meminfo": "Node 0 MemTotal:       131883008 kB\nNode 0 MemFree:  1 kB\n",
        f"{folder}/node10/cpulist": "\n", f"{folder}/node2/meminfo": "garbage\n", f"{folder}/possible": "0-10\n"}))
    assert found.nodes == (Node(0, "0-15,32-47", 131883008 * 1024), Node(2), Node(10, ""))


def test_names_ids_and_what_xe_and_amdgpu_tell_of_memory(tmp_path):
    ids = ("# comment\n1002  AMD\n\t744c  Navi 31 [Radeon RX 7900 XTX]\n\t\t1002 0e3b  A board\n"
           "8086  Intel Corporation\n\t56a0  DG2 [Arc A770]\nC 03  Display controller\n\t00  VGA\n")
    found = census(grow(tmp_path, {
        **pci("0000:03:00.0", "0x1002", "0x030000", device="0x744c", mem_info_vram_total=25753026560,
              mem_info_gtt_total=33000000000),
        **pci("0000:04:00.0", "0x8086", "0x030000", "xe", device="0x56a0"),
        "sys/bus/pci/devices/0000:04:00.0/tile0/physical_vram_size_bytes": "8589934592\n",
        "sys/bus/pci/devices/0000:04:00.0/tile1/physical_vram_size_bytes": "8589934592\n",
        **pci("0000:05:00.0", "0x1002", "0x038000", device="0x1586", product_name="Radeon Pro"),
        "usr/share/misc/pci.ids": ids}), no_nvml)
    assert found.gpus == (
        Device("amd", "0000:03:00.0", "Navi 31 [Radeon RX 7900 XTX]", memory=25753026560, id="1002:744c",
               shared=33000000000),
        Device("intel", "0000:04:00.0", "DG2 [Arc A770]", "xe", memory=17179869184, id="8086:56a0"),
        Device("amd", "0000:05:00.0", "Radeon Pro", id="1002:1586"))


def test_what_i915_tells_of_memory(tmp_path):
    """Intel's own releases write these two files beside the kernel's; in a processor's graphics they hold 0."""
    place = "sys/bus/pci/devices/0000:{}/drm/{}"
    found = census(grow(tmp_path, {
        **pci("0000:00:02.0", "0x8086", "0x030000", "i915"), **pci("0000:03:00.0", "0x8086", "0x038000", "i915"),
        **pci("0000:04:00.0", "0x8086", "0x030000", "i915"),
        f"{place.format('00:02.0', 'card0')}/lmem_total_bytes": "0\n",
        f"{place.format('03:00.0', 'renderD129')}/lmem_total_bytes": "7\n",
        f"{place.format('03:00.0', 'card1')}/lmem_total_bytes": "17079205888\n",
        f"{place.format('03:00.0', 'card1')}/lmem_avail_bytes": "17000000000\n",
        f"{place.format('04:00.0', 'card2')}/gt_max_freq_mhz": "2400\n"}), no_nvml)
    assert found.gpus is not None
    assert [(gpu.memory, gpu.free) for gpu in found.gpus] == [(None, None), (17079205888, 17000000000), (None, None)]


@pytest.mark.parametrize(("device", "expected"), [
    (Device("nvidia", memory=24 << 30), True), (Device("nvidia", memory=2 << 30), True), (Device("nvidia"), False),
    (Device("amd", memory=24 << 30, shared=256 << 30), True),
    (Device("amd", memory=4 << 30, shared=96 << 30), False), (Device("amd", memory=512 << 20, shared=8 << 30), False)])
def test_graphics_inside_a_processor_are_no_card(device, expected):
    assert device.is_card is expected


RECORDED = sorted((Path(__file__).parents[2] / "data" / "census").glob("*.json"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_machines_are_whole_and_cite_where_they_come_from(path):
    told = json.loads(path.read_text())
    assert told["_remark"] and all(url.startswith("https://") for url in told["_source"]) and told["_source"]
    found = read_census(path)
    again = {key: value for key, value in told.items() if not key.startswith("_")}
    assert found.to_dict() == again and found.memory.usable


def test_there_are_machines_of_every_kind():
    kinds = {"no-gpu", "laptop-8gb", "pair-12-8", "two-24", "four-48", "eight-80", "driver-missing", "unified-arm",
             "amd-24", "intel-arc", "container-4gib", "cards-hidden"}
    assert kinds <= {path.stem for path in RECORDED}


@pytest.mark.parametrize(("content", "reason"), [
    ("", "it is none, or of another version (Expecting value"), ("[]", "it is none"), ("{}", "it is none"),
    ('{"cpu": {"machine": "x"}, "memory": {"total": "many"}}', 'total cannot be "many"'),
    ('{"cpu": {"machine": "x"}, "memory": {"total": -1}}', "total cannot be -1"),
    ('{"cpu": {"machine": "x"}, "memory": {}, "gpus": [{"vendor": 7}]}', "vendor cannot be 7"),
    ('{"cpu": {"machine": "x"}, "memory": {}, "gpus": [{"vendor": "amd", "colour": 1}]}', "of another version"),
    ('{"cpu": {"machine": "x"}, "memory": {}, "variables": {"CUDA_VISIBLE_DEVICES": 1}}', "variables cannot be "),
    ("[" * 100_000, "it is none"), (None, "it cannot be read (No such file or directory)")])
def test_what_is_no_census_is_refused(tmp_path, content, reason):
    path = tmp_path / "census.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(CensusRefused) as caught:
        read_census(path)
    assert reason in caught.value.message and "`blazar doctor --census FILE` saves one" in caught.value.message


ODD = (None, "", -1, 0, 2**63, 2**70, 1.5, "x", True, [], {}, [None], [7], {"a": 1}, "\0", 1e999)


def places(value, place=()):
    """Every place within a value that JSON can write; of a list the first two."""
    yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for name, one in inner:
        yield from places(one, (*place, name))


def with_odd(value, place, odd):
    """A copy of `value` that holds `odd` at `place`."""
    if not place:
        return odd
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[place[0]] = with_odd(changed[place[0]], place[1:], odd)
    return changed


@pytest.mark.parametrize("name", ["two-24", "container-4gib"])
def test_whatever_stands_anywhere_in_a_census_it_is_planned_with_or_refused(name, tmp_path):
    [path] = [path for path in RECORDED if path.stem == name]
    told = {key: value for key, value in json.loads(path.read_text()).items() if not key.startswith("_")}
    file, read = tmp_path / "census.json", 0
    for place in places(told):
        for odd in ODD:
            file.write_text(json.dumps(with_odd(told, place, odd)))
            with suppress(CensusRefused):
                found = read_census(file)
                assert plan(Shape("llama", 4096, (Layer(weights=9, keys=64, values=64),), 1, 1), Demand(),
                            machine_of(found)).to_dict()
                read += 1
    assert read > 50
