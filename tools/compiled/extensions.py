"""The compiled modules as setuptools builds them: mypyc makes C of each source, and every core compiles some of it."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from setuptools import Extension
from setuptools.command.build_ext import build_ext

from tools.compiled.modules import FILES

FOLDER = os.path.join("build", "compiled-c")
"""Where the C sources go."""

MYPY_FLAGS = ("--ignore-missing-imports", "--follow-imports=silent")
"""mypy has judged them elsewhere; here it only tells types."""

C_FLAGS = ("-w", "-fvisibility=hidden", "-fno-semantic-interposition")
"""What is written by a program is not judged, and calls between its functions are direct."""

OPTIMIZE = os.environ.get("BLAZAR_OPTIMIZE", "2")
"""How much the C compiler does; 0 where the program is only to be tested, which takes it half the time."""


def extensions() -> list[Extension]:
    """One library for all modules, and one that loads it for each. None when mypyc is not there: pip asks once before
    it has brought what `setup_requires` names."""
    try:
        from mypyc.build import mypycify
    except ImportError:
        return []
    made = mypycify([*MYPY_FLAGS, *FILES], opt_level=OPTIMIZE, debug_level="0",
                    multi_file=True, target_dir=FOLDER, group_name="blazar")
    for extension in made:
        extension.extra_compile_args = [*(flag for flag in extension.extra_compile_args if flag != "-Werror"), *C_FLAGS]
    return made


class BuildAtOnce(build_ext):
    """Compiles the sources of a library at once, the largest first; setuptools takes one after the other."""

    def build_extensions(self) -> None:
        compile_some = self.compiler.compile

        def compile_all(sources: Iterable[str], **how: Any) -> list[str]:
            def compile_one(source: str) -> list[str]:
                return compile_some([source], **how)
            with ThreadPoolExecutor(os.cpu_count()) as cores:
                made = cores.map(compile_one, sorted(sources, key=os.path.getsize, reverse=True))
                return [name for names in made for name in names]

        self.compiler.compile = compile_all
        super().build_extensions()
