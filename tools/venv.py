"""Make a virtual environment and install this checkout into it. Run by the Makefile, with any Python 3.

Usage: tools/venv.py FOLDER EXTRAS
"""

import os
import subprocess
import sys

NEEDED = (3, 11)


def main():
    folder, extras = sys.argv[1:]
    if sys.version_info < NEEDED:
        sys.exit("make: Blazar needs Python %d.%d or newer and %s is %s; name another with `make PYTHON=python3.11`"
                 % (NEEDED + (sys.executable, sys.version.split()[0])))
    try:
        import ensurepip  # noqa: F401 - Debian ships venv without it, which shows only halfway through
    except ImportError:
        sys.exit("make: this Python cannot make virtual environments; `sudo apt-get install python3-venv` adds that")
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(python):
        run([sys.executable, "-m", "venv", folder], "could not make %s" % folder)
    print("installing Blazar and its packages into %s (about a minute the first time) ..." % folder, flush=True)
    run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable", ".[%s]" % extras],
        "pip could not install; its own words are above. It needs to reach PyPI, or a mirror named in pip.conf")


def run(command, words):
    if subprocess.call(command) != 0:
        sys.exit("make: %s" % words)


main()
