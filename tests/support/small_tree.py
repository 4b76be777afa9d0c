"""A source tree with the targets of llama.cpp that real CMake and a real compiler build in a second."""

import subprocess
from pathlib import Path

from blazar.engines.install.build import TOOLS

CMAKE = """cmake_minimum_required(VERSION 3.14)
project(small CXX)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${{CMAKE_BINARY_DIR}}/bin)
{cuda}
foreach(name {names})
  add_executable(${{name}} tool.cpp)
  target_compile_definitions(${{name}} PRIVATE NAME="${{name}}" NUMBER=${{LLAMA_BUILD_NUMBER}}
                             COMMIT="${{LLAMA_BUILD_COMMIT}}")
endforeach()
"""

TOOL = """#include <cstdio>
#include <cstdlib>
{include}
int main(int count, char ** words) {{
    {first}
    std::printf("version: 0.1.0-dev (build %d, commit %s)\\n", NUMBER, COMMIT);
    return 0;
}}
"""

KERNEL = """#include <cuda_runtime.h>
__global__ void nothing(int * x) { *x = 1; }
int devices() { int count = 0; cudaGetDeviceCount(&count); return count; }
"""


def small_tree(folder: Path, names: tuple[str, ...] = TOOLS, broken: str = "", first: str = "",
               cuda: bool = False) -> Path:
    """Write the tree to `folder`. `broken` is put before the program, `first` into the beginning of `main`."""
    folder.mkdir(parents=True, exist_ok=True)
    part = ""
    if cuda:
        (folder / "kernel.cu").write_text(KERNEL)
        part = "if(GGML_CUDA)\n  enable_language(CUDA)\n  add_library(kernel STATIC kernel.cu)\n" \
               "  link_libraries(kernel)\nendif()"
    (folder / "CMakeLists.txt").write_text(CMAKE.format(names=" ".join(names), cuda=part))
    (folder / "tool.cpp").write_text(TOOL.format(include=broken, first=first))
    return folder


def repository(folder: Path, *tags: str) -> str:
    """Make the tree a git repository with a commit for each tag; its URL."""
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(folder), *words], check=True,
                       capture_output=True)

    git("init", "--quiet", "--initial-branch", "main")
    for tag in tags:
        (folder / "tag.txt").write_text(tag)
        git("add", ".")
        git("commit", "--quiet", "-m", tag)
        git("tag", tag)
    return folder.as_uri()
