"""A few hundred inputs of each kind; tools/fuzz.py tries as many as one likes, and tells what it found."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def fuzz(*arguments):
    return subprocess.run([sys.executable, ROOT / "tools" / "fuzz.py", *arguments], capture_output=True, text=True)


@pytest.mark.debian
def test_spoilt_input_hurts_nothing(tmp_path):
    done = fuzz("--count", "1200", "--seed", "7", "--faults", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.iterdir())
    for told in ("pure: 600 inputs", "bodies: 240 inputs", "streams: 240 inputs", "heads: 120 inputs", "worker: "):
        assert told in done.stdout, done.stdout


def test_an_input_can_be_tried_again():
    done = fuzz("--target", "pure", "--seed", "7", "--only", "41")
    assert done.returncode == 0 and "pure: 1 inputs" in done.stdout, done.stdout + done.stderr
