"""Run the part of the suite that needs nothing from PyPI with Debian's own Python and packages.

Run with /usr/bin/python3. What is missing is said in words; under CI=true it is an error, elsewhere a skip.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    # module: Debian package
    "gevent": "python3-gevent", "falcon": "python3-falcon", "gunicorn": "gunicorn", "peewee": "python3-peewee",
    "toml": "python3-toml", "tomlkit": "python3-tomlkit", "requests": "python3-requests",
    "urllib3": "python3-urllib3", "psutil": "python3-psutil", "geventwebsocket": "python3-gevent-websocket",
    "packaging": "python3-packaging", "pytest": "python3-pytest", "pytest_timeout": "python3-pytest-timeout",
}
FOLDERS = ("tests/unit", "tests/contract", "tests/gateway", "tests/probe", "tests/test_layers.py")


def main() -> int:
    missing = sorted(package for module, package in PACKAGES.items() if importlib.util.find_spec(module) is None)
    if missing:
        print(f"SKIPPED the suite with Debian's packages: {' '.join(missing)} not installed; "
              f"`sudo apt-get install {' '.join(missing)}` adds them", flush=True)
        return 1 if os.environ.get("CI") == "true" else 0
    folders = [folder for folder in FOLDERS if (ROOT / folder).exists()]
    print(f"the suite with Debian's packages ({sys.executable}): {' '.join(folders)}", flush=True)
    return subprocess.call([sys.executable, "-m", "pytest", *folders], cwd=ROOT)


raise SystemExit(main())
