"""Programs that a test needs beside Blazar. Where one is missing the test is left out, and says what brings it."""

import os
import shutil
from pathlib import Path

import pytest

PACKAGES = {"cmake": "cmake", "curl": "curl", "git": "git", "nginx": "nginx-light", "node": "nodejs",
            "openssl": "openssl", "systemd-analyze": "systemd"}
"""Program: the Debian package that brings it."""

NPM = Path(__file__).parent.parent.parent / "build" / "npm"
"""Where `make test` puts the JavaScript clients."""


def need(program: str) -> str:
    """The path of `program`, daemons included. Skips the test when there is none."""
    found = shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))
    if found is None:
        pytest.skip(f"there is no {program}; `sudo apt-get install {PACKAGES[program]}` brings it")
    return found


def need_javascript_clients() -> Path:
    """The folder in which npm has put them. Skips the test when they or node are missing."""
    need("node")
    if not (NPM / ".installed").exists():
        pytest.skip("the JavaScript clients are not here; `make build/npm/.installed` brings them")
    return NPM / "node_modules"
