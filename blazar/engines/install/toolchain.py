"""What a build of llama.cpp needs on this machine, and exactly what of it is missing."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blazar.engines import oneshot
from blazar.errors import BuildToolsMissing

NEWEST_GCC = (
    # CUDA version from which it holds, newest major version of g++ that its nvcc accepts
    ((11, 0), 9), ((11, 1), 10), ((11, 5), 11), ((12, 0), 12), ((12, 4), 13), ((12, 8), 14), ((13, 0), 15),
)

HOST_COMPILERS = tuple(f"g++-{major}" for major in range(20, 8, -1))
"""Names under which distributions install several versions side by side, newest first."""


@dataclass(frozen=True)
class Cuda:
    """What a CUDA build needs beyond a CPU one."""

    nvcc: str
    version: tuple[int, int]
    host_compiler: str
    archs: tuple[str, ...]
    """Compute capabilities without their dot: ("86", "90")."""


@dataclass(frozen=True)
class Toolchain:
    """Programs by absolute path."""

    cmake: str
    compiler: str
    """The C++ compiler."""
    generator: str
    """How CMake calls the build program: `Ninja` or `Unix Makefiles`."""
    maker: str
    cuda: Cuda | None = None


def find(flavour: str, archs: Sequence[str] = (), env: Mapping[str, str] = os.environ) -> Toolchain:
    """The programs for a build of `flavour`; `archs` replaces what nvidia-smi says of the GPUs.

    Raises BuildToolsMissing, which lists all that is missing at once.
    """
    missing: list[str] = []
    path = env.get("PATH")

    def program(names: Sequence[str], words: str) -> str:
        for name in names:
            if found := shutil.which(name, path=path):
                return found
        missing.append(words)
        return ""

    cmake = program(["cmake"], "cmake is not on PATH (`apt-get install cmake`)")
    compiler = program([env.get("CXX") or "c++", "g++", "clang++"],
                       "there is no C++ compiler on PATH (`apt-get install g++`, or set CXX)")
    maker = program(["ninja", "make"], "neither ninja nor make is on PATH (`apt-get install ninja-build`)")
    cuda = _cuda(archs, env, missing) if flavour == "cuda" else None
    if missing:
        raise BuildToolsMissing(flavour=flavour, missing="; ".join(missing))
    return Toolchain(cmake, compiler, "Ninja" if Path(maker).name == "ninja" else "Unix Makefiles", maker, cuda)


def _cuda(archs: Sequence[str], env: Mapping[str, str], missing: list[str]) -> Cuda | None:
    """The CUDA part; what it lacks is added to `missing`."""
    known = len(missing)
    nvcc = find_nvcc(env)
    if nvcc is None:
        missing.append("nvcc, the CUDA compiler, is neither on PATH nor under CUDA_HOME nor in /usr/local/cuda "
                       "(install the CUDA toolkit; `apt-get install nvidia-cuda-toolkit` on Debian)")
    version = nvcc_version(_said(nvcc, "--version", env=env)) if nvcc else None
    if nvcc and version is None:
        missing.append(f"{nvcc} does not say its version, so it may be broken")
    host = host_compiler(version, env) if version else None
    if version and host is None:
        missing.append(f"the nvcc of CUDA {version[0]}.{version[1]} takes g++ up to {newest_gcc(version)} and there is "
                       f"none here (`apt-get install g++-{newest_gcc(version)}`, or set CUDAHOSTCXX)")
    wanted = tuple(archs) or gpu_archs(env)
    if not wanted:
        missing.append("nvidia-smi names no GPU, so it is not known for which to build (install the driver, or say it "
                       "with `--arch 89`: the GPU's compute capability without its dot)")
    if nvcc:
        supported = re.findall(r"compute_(\w+)", _said(nvcc, "--list-gpu-arch", env=env))
        strange = [arch for arch in wanted if supported and arch not in supported]
        if strange:
            missing.append(f"this nvcc cannot build for {', '.join(strange)}; it can for {', '.join(supported)}")
    if len(missing) > known or nvcc is None or version is None or host is None:
        return None
    return Cuda(nvcc, version, host, wanted)


def find_nvcc(env: Mapping[str, str]) -> str | None:
    """nvcc on PATH, else where the toolkit's own variables say, or in its usual folder when they are not set."""
    homes = [env[name] for name in ("CUDA_HOME", "CUDA_PATH") if env.get(name)] or ["/usr/local/cuda"]
    places = [env.get("PATH", ""), *(os.path.join(home, "bin") for home in homes)]
    return shutil.which("nvcc", path=os.pathsep.join(places))


def nvcc_version(text: str) -> tuple[int, int] | None:
    """(12, 4) out of what `nvcc --version` prints."""
    found = re.search(r"\brelease (\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def newest_gcc(cuda: tuple[int, int]) -> int:
    """The newest major version of g++ that the nvcc of this CUDA accepts."""
    return max((gcc for since, gcc in NEWEST_GCC if since <= cuda), default=NEWEST_GCC[0][1])


def host_compiler(cuda: tuple[int, int], env: Mapping[str, str]) -> str | None:
    """The compiler that nvcc shall use: CUDAHOSTCXX, else g++ when it is old enough, else the newest that is."""
    path = env.get("PATH")
    if env.get("CUDAHOSTCXX"):
        return shutil.which(env["CUDAHOSTCXX"], path=path)
    limit = newest_gcc(cuda)
    for name in ("g++", *HOST_COMPILERS):
        found = shutil.which(name, path=path)
        major = _said(found, "-dumpversion", env=env).partition(".")[0].strip() if found else ""
        if found and major.isdecimal() and int(major) <= limit:
            return found
    return None


def gpu_archs(env: Mapping[str, str]) -> tuple[str, ...]:
    """The compute capabilities of this machine's GPUs, as nvidia-smi tells them; () when it cannot."""
    smi = shutil.which("nvidia-smi", path=env.get("PATH"))
    said = _said(smi, "--query-gpu=compute_cap", "--format=csv,noheader", env=env) if smi else ""
    return tuple(sorted({f"{major}{minor}" for major, minor in re.findall(r"^\s*(\d+)\.(\d+)\s*$", said, re.MULTILINE)},
                        key=int))


def _said(program: str, *words: str, env: Mapping[str, str]) -> str:
    """What a program prints; nothing when it fails."""
    try:
        finished = oneshot.run([program, *words], oneshot.kept(env))
    except OSError:
        return ""
    return finished.output if finished.code == 0 else ""
