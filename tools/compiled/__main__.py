"""`python -m tools.compiled`: a copy of the package in build/compiled, its hot path compiled beside the sources.

The copy is what PYTHONPATH names to run it; the checkout itself never holds a compiled module, which Debian's Python
would load as well as that of .venv. Where there is no compiler, or no mypyc, there is no copy, and that is said.
"""

from tools.compiled.tree import Unable, build


def main() -> int:
    try:
        build()
    except Unable as error:
        print(f"not compiled, which changes the speed alone: {error}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
