"""Build llama.cpp here: a plan that can be shown, its steps, and the build in use once its server has answered."""

import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blazar.engines import oneshot
from blazar.engines.builds import Build
from blazar.engines.forks import FORKS, tag_of
from blazar.engines.install.lanes import NAME
from blazar.engines.install.retention import prune
from blazar.engines.install.shelf import KIND, Shelf
from blazar.engines.install.sources import Source
from blazar.engines.install.speed import Fault, starts
from blazar.engines.install.toolchain import Toolchain
from blazar.engines.lane import Program
from blazar.errors import BuildFailed, StoreUnwritable, UsageRefused
from blazar.models.catalog import Catalog
from blazar.paths import Paths
from blazar.store.locks import told_in_words
from blazar.store.workspace import workspace
from blazar.units import format_bytes, timestamp

SERVER = "llama-server"
TOOLS = (SERVER, "llama-quantize", "llama-imatrix", "llama-perplexity", "llama-bench")

OPTIONS = {
    # One program a tool, without libraries of its own beside it, and nothing that reaches out to the network.
    "CMAKE_BUILD_TYPE": "Release", "BUILD_SHARED_LIBS": "OFF", "LLAMA_BUILD_TESTS": "OFF",
    "LLAMA_BUILD_EXAMPLES": "OFF", "LLAMA_CURL": "OFF", "LLAMA_OPENSSL": "OFF", "LLAMA_BUILD_UI": "OFF",
    "LLAMA_USE_PREBUILT_UI": "OFF",
}
NATIVE = {"GGML_NATIVE": "ON"}
"""This machine's processor and no other: the build stays here."""

SPACE = {"cpu": 2 << 30, "cuda": 6 << 30}
"""Bytes that a build may need while it runs."""

GRACE = 5.0
"""Seconds that ninja or make gets to end the compilers, which ninja runs in groups of their own."""

COMPILER_VARIABLES = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CUDA_HOME", "CUDA_PATH", "CUDAFLAGS")

Steps = Callable[[str, int, int | None], None]
"""Called with the task, the steps done, and the steps in all."""

_NINJA = re.compile(r"^\[(\d+)/(\d+)\]")
_MAKE = re.compile(r"^\[\s*(\d+)%\]")


@dataclass(frozen=True)
class Plan:
    """Everything a build does, known before it begins."""

    flavour: str
    source: Source
    toolchain: Toolchain
    jobs: int
    targets: tuple[str, ...] = TOOLS
    options: tuple[tuple[str, str], ...] = tuple({**OPTIONS, **NATIVE}.items())
    lane: str | None = None
    """The name of the lane that it becomes; None = a build of the main engine."""
    serves: tuple[str, ...] = ()
    """The architectures that the lane serves."""

    def __post_init__(self) -> None:
        """Raises UsageRefused for a lane that serves nothing, or whose name cannot be one."""
        if bool(self.lane) != bool(self.serves):
            raise UsageRefused("`--lane NAME` and `--serves ARCHITECTURE` belong together")
        if self.lane and not NAME.fullmatch(self.lane):
            raise UsageRefused(f"{self.lane[:60]!r} is no name of a lane: small letters, digits and -, at most 40")

    @property
    def tag(self) -> str:
        return tag_of(self.lane) if self.lane else f"b{self.source.number}-{self.flavour}"

    def configure(self, source: Path, build: Path) -> list[str]:
        """The command that prepares the folder `build`."""
        tools = self.toolchain
        options = {**dict(self.options), "LLAMA_BUILD_NUMBER": str(self.source.number),
                   "LLAMA_BUILD_COMMIT": self.source.commit, "CMAKE_CXX_COMPILER": tools.compiler}
        if tools.cuda:
            options |= {"GGML_CUDA": "ON", "CMAKE_CUDA_COMPILER": tools.cuda.nvcc,
                        "CMAKE_CUDA_HOST_COMPILER": tools.cuda.host_compiler,
                        "CMAKE_CUDA_ARCHITECTURES": ";".join(tools.cuda.archs)}
        return [tools.cmake, "-S", str(source), "-B", str(build), "-G", tools.generator,
                *(f"-D{name}={value}" for name, value in options.items())]

    def compile(self, build: Path) -> list[str]:
        """The command that compiles the targets in the folder `build`."""
        return [self.toolchain.maker, "-C", str(build), f"-j{self.jobs}", *self.targets]

    def lines(self) -> list[str]:
        """The plan for a person."""
        tools, cuda = self.toolchain, self.toolchain.cuda
        return [f"builds {self.tag} from {self.source.origin}",
                f"with {tools.cmake}, {tools.compiler} and {tools.maker}, {self.jobs} at a time",
                *([f"for CUDA {cuda.version[0]}.{cuda.version[1]} with {cuda.nvcc} over {cuda.host_compiler}, "
                   f"GPU architectures {', '.join(cuda.archs)}"] if cuda else []),
                *([f"a lane of its own for {', '.join(self.serves)}"] if self.lane else []),
                f"tools: {', '.join(self.targets)}"]


def build(shelf: Shelf, plan: Plan, use: bool = True, again: bool = False, keep: int | None = None,
          needed: Collection[str] = (), steps: Steps = lambda task, done, total: None,
          env: Mapping[str, str] = os.environ) -> tuple[Build, list[str]]:
    """Carry the plan out: the new build, in use unless `use` is False, and the tags of builds beyond the newest `keep`
    that were removed, none of which is `needed`.

    Nothing is left of a build that failed or was interrupted but its log. Raises BuildFailed, StoreUnwritable or
    EnginesBusy.
    """
    with shelf.changing():
        before = next((build for build in shelf.builds.every() if build.tag == plan.tag), None)
    if before and not again:
        raise BuildFailed(tag=plan.tag, reason="it is installed already", remedy="`--again` builds it anew")
    _need_space(shelf.paths, SPACE[plan.flavour])
    log = shelf.paths.log / f"build-{plan.tag}.log"
    with workspace(shelf.paths, f"build-{plan.tag}") as work:
        source = plan.source.fetch(work, env)
        compile_tools(plan, source, work / "build", log, steps, env)
        _check(plan, work / "build" / "bin")
        with shelf.changing(), shelf.assembling(plan.tag) as folder:
            _copy(work / "build" / "bin", plan.targets, folder)
            made = shelf.place(folder, folder / SERVER, plan.tag, plan.flavour,
                               f"built here from {plan.source.origin}", None, FORKS if plan.lane else KIND)
            if plan.lane:
                Catalog.own(plan.lane, plan.serves, timestamp())
            elif use:
                shelf.take_into_use(made)
            gone = prune(shelf, keep, needed, KIND) if keep else []
            return shelf.builds.find(plan.tag), gone


def compile_tools(plan: Plan, source: Path, build: Path, log: Path, steps: Steps, env: Mapping[str, str]) -> None:
    """Configure and compile into `build`; all that is printed goes to `log`. Raises BuildFailed."""
    child_env = oneshot.kept(env, *COMPILER_VARIABLES)
    with told_in_words(log), open(log, "w") as file:
        for task, argv in (("configure", plan.configure(source, build)), ("compile", plan.compile(build))):
            steps(task, 0, None)

            def told(line: str, task: str = task) -> None:
                file.write(f"{line}\n")
                if found := _NINJA.match(line):
                    steps(task, int(found[1]), int(found[2]))
                elif found := _MAKE.match(line):
                    steps(task, int(found[1]), 100)

            try:
                finished = oneshot.run(argv, child_env, on_line=told, grace=GRACE)
            except OSError as error:
                raise BuildFailed(tag=plan.tag, reason=f"{argv[0]} cannot be started ({error.strerror})",
                                  remedy="see that it is a program") from error
            if finished.code != 0:
                raise BuildFailed(tag=plan.tag, reason=f"{task}: {finished.ending}",
                                  remedy=f"its whole output is in {log}")


def _check(plan: Plan, built: Path) -> None:
    """See that all tools are there, and that the server runs here."""
    missing = [name for name in plan.targets if not (built / name).is_file()]
    if missing:
        raise BuildFailed(tag=plan.tag, reason=f"the source made no {', '.join(missing)}",
                          remedy="see that it is a whole tree of llama.cpp")
    try:
        starts(Program(KIND, (str(built / SERVER),), plan.tag), {})
    except Fault as error:
        raise BuildFailed(tag=plan.tag, reason=f"its server does not start: {error}",
                          remedy="what was in use stays in use") from error


def _copy(built: Path, names: Sequence[str], folder: Path) -> None:
    for name in names:
        with open(built / name, "rb") as source, open(folder / name, "xb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)
            os.fchmod(copy.fileno(), 0o755)
            copy.flush()
            os.fsync(copy.fileno())


def _need_space(paths: Paths, size: int) -> None:
    with told_in_words(paths.incoming):
        disk = os.statvfs(paths.incoming)
    free = disk.f_bavail * disk.f_frsize
    if size > free:
        raise StoreUnwritable(path=paths.incoming, reason=f"a build needs up to {format_bytes(size)} while it runs and "
                                                          f"{format_bytes(free)} are free",
                              remedy="free some space, or choose another `--data-dir`")
