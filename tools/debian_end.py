"""Run the suite, but for what is marked `slow`, with Debian's own Python and packages.

The real engine, which only PyPI has, is taken from .venv.

Run with /usr/bin/python3. What is missing is said in words; under CI=true it is an error, elsewhere a skip.
`--lacks MODULE...` only says what of these is missing, and nothing where all are there.
"""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    # module: Debian package
    "gevent": "python3-gevent", "falcon": "python3-falcon", "gunicorn": "gunicorn", "peewee": "python3-peewee",
    "toml": "python3-toml", "tomlkit": "python3-tomlkit", "requests": "python3-requests",
    "urllib3": "python3-urllib3", "psutil": "python3-psutil", "jsonschema": "python3-jsonschema",
    "geventwebsocket": "python3-gevent-websocket",
    "packaging": "python3-packaging", "pytest": "python3-pytest", "pytest_timeout": "python3-pytest-timeout",
    "xdist": "python3-pytest-xdist",
    "build_manpages": "python3-argparse-manpage",
}
ONLY_ON_PYPI = ("anthropic", "gguf", "hypothesis", "mypyc", "ollama", "openai", "orjson", "schemathesis",
                "xllamacpp")
"""What Debian does not have, or has too old; tests that import it are left out here."""

ELSEWHERE = "tests/integration/test_bench.py"
"""C programs and other people's proxies, which are the same on both ends."""


def main() -> int:
    if sys.argv[1:2] == ["--lacks"]:
        print(lacking(sys.argv[2:]))
        return 0
    why = lacking(PACKAGES)
    if why:
        return skip(why)
    print(f"the suite with Debian's packages ({sys.executable})", flush=True)
    suite = [sys.executable, "-m", "pytest", "-m", "not slow", "--durations=25", "--may-lack", ",".join(ONLY_ON_PYPI),
             f"--ignore={ELSEWHERE}", "-o", "cache_dir=build/cache-debian"]
    if subprocess.call([*suite, "-n", "2", "--dist", "loadfile"], cwd=ROOT) == 0:
        return 0
    print("once more what failed:", flush=True)  # some limits of time can be missed on a busy machine alone
    return subprocess.call([*suite, "--last-failed", "--last-failed-no-failures", "none"], cwd=ROOT)


def lacking(modules: Iterable[str]) -> str:
    """What this Python lacks, and what brings it; '' when it lacks nothing."""
    if sys.version_info < (3, 11):  # noqa: UP036 - the system's Python may be any
        return f"{sys.executable} is older than Python 3.11"
    missing = sorted(PACKAGES[module] for module in modules if importlib.util.find_spec(module) is None)
    return f"not installed; `sudo apt-get install {' '.join(missing)}` adds what is missing" if missing else ""


def skip(why: str) -> int:
    print(f"SKIPPED the suite with Debian's packages: {why}", flush=True)
    return 1 if os.environ.get("CI") == "true" else 0


raise SystemExit(main())
