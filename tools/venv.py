"""Make a virtual environment and install this checkout into it. Run by the Makefile, with any Python from 3.6 on.

Usage: tools/venv.py FOLDER EXTRAS
"""

import os
import subprocess
import sys


def main():
    folder, extras = sys.argv[1:]
    if sys.version_info < (3, 11):  # noqa: UP036 - older ones read this file too
        sys.exit(f"make: Blazar needs Python 3.11 or newer and {sys.executable} is {sys.version.split()[0]}; "
                 "name another with `make PYTHON=python3.11`")
    try:
        import ensurepip  # noqa: F401 - Debian ships venv without it, which shows only halfway through
    except ImportError:
        sys.exit("make: this Python cannot make virtual environments; `sudo apt-get install python3-venv` adds that")
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        run([sys.executable, "-m", "venv", folder], f"could not make {folder}")
    print(f"installing Blazar and its packages into {folder} (about a minute the first time) ...", flush=True)
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable", f".[{extras}]"],
        "pip could not install; its own words are above. It needs to reach PyPI, or a mirror named in pip.conf")


def run(command, words):
    if subprocess.call(command) != 0:
        sys.exit(f"make: {words}")


main()
