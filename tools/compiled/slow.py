"""`python -m tools.compiled.slow [FILE...]`: the lines that, although compiled, go through Python's own look-ups.

What mypyc knows of each line is shown below it; without files, of all that is compiled. Imports are left out: they run
once.
"""

import sys
from pathlib import Path

from mypy.fscache import FileSystemCache
from mypyc.annotate import generate_annotations
from mypyc.build import get_mypy_config
from mypyc.codegen.emitmodule import compile_modules_to_ir, parse_and_typecheck
from mypyc.errors import Errors
from mypyc.irbuild.mapper import Mapper
from mypyc.options import CompilerOptions

from tools.compiled.extensions import MYPY_FLAGS
from tools.compiled.modules import FILES

GROUP = "blazar"


def main() -> int:
    shown = sys.argv[1:] or FILES
    how, cache = CompilerOptions(multi_file=True), FileSystemCache()
    sources, _, options = get_mypy_config([*MYPY_FLAGS, *FILES], None, how, cache)
    result = parse_and_typecheck(sources, options, how, [(sources, GROUP)], cache)
    mapper = Mapper({source.module: GROUP for source in sources})
    for name, module in compile_modules_to_ir(result, mapper, how, Errors(options)).items():
        state = result.graph[name]
        if state.path in shown and state.path and state.tree:
            tell(state.path, generate_annotations(state.path, state.tree, module, state.type_map(), mapper).annotations)
    return 0


def tell(path: str, found: dict[int, list]) -> None:
    lines = Path(path).read_text().split("\n")
    for number in sorted(found):
        line = lines[number - 1].strip()
        if not line.startswith(("import ", "from ")):
            print(f"{path}:{number}: {line}")
            print("".join(f"    {each.message}\n" for each in found[number]), end="")


if __name__ == "__main__":
    raise SystemExit(main())
