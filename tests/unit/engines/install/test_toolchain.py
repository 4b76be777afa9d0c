"""What a build needs here: recorded answers of real programs, played by small scripts in a PATH of their own."""

import os
import shutil

import pytest

from blazar.engines.install.toolchain import find, gpu_archs, host_compiler, newest_gcc, nvcc_version
from blazar.errors import BuildToolsMissing

NVCC = """nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2025 NVIDIA Corporation
Cuda compilation tools, release {version}, V{version}.88
"""


def script(folder, name, *answers):
    """A program that prints the answer for its first argument; `*` matches any."""
    cases = "".join(f"{pattern}) cat <<'END'\n{text}\nEND\n;;\n" for pattern, text in answers)
    (folder / name).write_text(f"#!/bin/sh\ncase $1 in\n{cases}*) exit 1;;\nesac\n")
    (folder / name).chmod(0o755)


def machine(folder, *programs, nvcc=None, archs="compute_75\ncompute_90", gcc=None, gpus=None):
    """A PATH with those programs, besides what the scripts themselves need."""
    for name in ("sh", "cat"):
        (folder / name).symlink_to(shutil.which(name))
    for name in programs:
        script(folder, name, ("*", ""))
    if nvcc:
        script(folder, "nvcc", ("--version", NVCC.format(version=nvcc)), ("--list-gpu-arch", archs))
    for name, version in (gcc or {}).items():
        script(folder, name, ("-dumpversion", version))
    if gpus is not None:
        script(folder, "nvidia-smi", ("--query-gpu=compute_cap", gpus))
    return {"PATH": str(folder), "CUDA_HOME": str(folder)}


def missing(flavour, env, archs=()):
    with pytest.raises(BuildToolsMissing) as told:
        find(flavour, archs, env)
    return str(told.value)


def test_all_that_is_missing_is_told_at_once(tmp_path):
    assert missing("cpu", machine(tmp_path)) == (
        "cannot build a cpu engine here: cmake is not on PATH (`apt-get install cmake`); there is no C++ compiler on "
        "PATH (`apt-get install g++`, or set CXX); neither ninja nor make is on PATH (`apt-get install ninja-build`)")


def test_a_cpu_build_needs_three_programs(tmp_path):
    tools = find("cpu", (), machine(tmp_path, "cmake", "c++", "make"))
    assert (tools.generator, os.path.basename(tools.maker), tools.cuda) == ("Unix Makefiles", "make", None)
    script(tmp_path, "ninja", ("*", ""))
    assert find("cpu", (), {"PATH": str(tmp_path)}).generator == "Ninja"
    script(tmp_path, "mycxx", ("*", ""))
    assert find("cpu", (), {"PATH": str(tmp_path), "CXX": "mycxx"}).compiler == str(tmp_path / "mycxx")


def test_a_cuda_build_goes_by_the_gpus_that_are_here(tmp_path):
    env = machine(tmp_path, "cmake", "c++", "make", nvcc="12.4", gcc={"g++": "13"}, gpus="9.0\n7.5\n9.0")
    cuda = find("cuda", (), env).cuda
    assert (cuda.version, cuda.archs, os.path.basename(cuda.host_compiler)) == ((12, 4), ("75", "90"), "g++")
    assert find("cuda", ["75"], env).cuda.archs == ("75",)


@pytest.mark.parametrize(("here", "words"), [
    ({"gcc": {"g++": "12"}, "gpus": "9.0", "nvcc": None}, "nvcc, the CUDA compiler, is neither on PATH"),
    ({"gcc": {"g++": "12"}, "nvcc": "12.4"}, "nvidia-smi names no GPU, so it is not known for which to build"),
    ({"gcc": {"g++": "12"}, "nvcc": "12.4", "gpus": "No devices were found"}, "nvidia-smi names no GPU"),
    ({"gcc": {"g++": "15", "g++-14": "14"}, "nvcc": "12.4", "gpus": "9.0"},
     "the nvcc of CUDA 12.4 takes g++ up to 13 and there is none here (`apt-get install g++-13`, or set CUDAHOSTCXX)"),
    ({"gcc": {"g++": "12"}, "nvcc": "13.0", "gpus": "6.1\n9.0"},
     "this nvcc cannot build for 61; it can for 75, 90")])
def test_what_a_cuda_build_lacks(tmp_path, here, words):
    assert words in missing("cuda", machine(tmp_path, "cmake", "c++", "make", **here))


def test_nvcc_that_says_nothing(tmp_path):
    env = machine(tmp_path, "cmake", "c++", "make", gcc={"g++": "12"}, gpus="9.0")
    script(tmp_path, "nvcc")
    assert f"{tmp_path}/nvcc does not say its version" in missing("cuda", env)


def test_the_host_compiler_fits_nvcc(tmp_path):
    env = machine(tmp_path, gcc={"g++": "14", "g++-13": "13", "g++-12": "12", "g++-9": "9"})
    assert [os.path.basename(host_compiler(version, env)) for version in ((12, 8), (12, 4), (12, 0), (11, 1))] == [
        "g++", "g++-13", "g++-12", "g++-9"]
    script(tmp_path, "own", ("*", ""))
    assert host_compiler((11, 0), {**env, "CUDAHOSTCXX": "own"}) == str(tmp_path / "own")


def test_versions_are_read():
    assert nvcc_version(NVCC.format(version="13.0")) == (13, 0) and nvcc_version("nvcc: command not found") is None
    assert [newest_gcc(version) for version in ((10, 2), (11, 0), (12, 3), (12, 9), (14, 1))] == [9, 9, 12, 14, 15]


def test_without_nvidia_smi_no_gpu_is_known(tmp_path):
    assert gpu_archs(machine(tmp_path)) == ()
