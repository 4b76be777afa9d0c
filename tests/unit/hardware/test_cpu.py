"""The processor, out of files as several machines have them."""

import pytest

from blazar.hardware.cpu import Cpu, read_cpu
from tests.support.tree import grow

X86 = """processor\t: {number}
model name\t: AMD EPYC
physical id\t: 0
core id\t\t: {core}
flags\t\t: fpu sse sse4_2 ssse3 avx avx2 fma f16c bmi2 avx512f avx512_vnni avx_vnni amx_int8 {more}
bugs\t\t: spectre_v1

"""
ARM = """processor\t: {number}
BogoMIPS\t: 50.00
Features\t: fp asimd aes asimdhp asimddp i8mm sve bf16
CPU part\t: 0xd40

"""
BOARD = "Hardware\t: BCM2835\nModel\t\t: Raspberry Pi 5\n"


def status(allowed):
    return f"Name:\tpython\nCpus_allowed:\tff\nCpus_allowed_list:\t{allowed}\n"


def test_an_x86_machine_with_two_threads_a_core(tmp_path):
    cpuinfo = "".join(X86.format(number=number, core=number // 2, more="") for number in range(4))
    root = grow(tmp_path, {"proc/cpuinfo": cpuinfo, "proc/self/status": status("0-1,3")})
    assert read_cpu(root, "x86_64") == Cpu(
        "x86_64", "AMD EPYC", cores=2, threads=4, allowed=3,
        features=frozenset({"sse4_2", "ssse3", "avx", "avx2", "fma", "f16c", "bmi2", "avx512f", "avx512_vnni",
                            "avx_vnni", "amx_int8"}))


def test_only_what_every_processor_can_do_counts(tmp_path):
    cpuinfo = X86.format(number=0, core=0, more="amx_tile") + X86.format(number=1, core=1, more="avx512bw")
    features = read_cpu(grow(tmp_path, {"proc/cpuinfo": cpuinfo}), "x86_64").features
    assert features is not None and not features & {"amx_tile", "avx512bw"} and "avx2" in features


def test_an_arm_machine_does_not_tell_its_cores(tmp_path):
    cpuinfo = ARM.format(number=0) + ARM.format(number=1) + BOARD
    cpu = read_cpu(grow(tmp_path, {"proc/cpuinfo": cpuinfo}), "aarch64")
    assert (cpu.threads, cpu.cores, cpu.model, cpu.allowed) == (2, None, None, None)
    assert cpu.features == {"asimd", "asimdhp", "asimddp", "i8mm", "sve", "bf16"}


@pytest.mark.parametrize("files", [{}, {"proc/cpuinfo": ""}, {"proc/cpuinfo": "no such thing\n\n:::\n"},
                                   {"proc/self/status": status("many")}])
def test_what_cannot_be_read_is_unknown(tmp_path, files):
    assert read_cpu(grow(tmp_path, files), "riscv64") == Cpu("riscv64")
