"""The manual page of the settings: complete, and roff that no formatter complains about."""

import shutil
import subprocess

import pytest

from blazar.config.active import ACTIVE
from blazar.config.registry import SETTINGS
from tools import manual


def test_every_setting_stands_in_it():
    page = manual.page().replace("\\-", "-")
    entries = [line for line in page.splitlines() if line.startswith("\\fB")]
    assert {f"\\fB{name}\\fR" for name in SETTINGS if name in ACTIVE} <= set(entries)
    waiting = page.partition(".SH NOT ACTIVE YET")[2].partition(".SH")[0]
    assert all(name in waiting for name in set(SETTINGS) - ACTIVE)


def test_text_is_taken_literally():
    assert manual._text("a-b `c` \\d") == "a\\-b \\fBc\\fR \\ed"
    assert manual._text(".TH\n'x") == "\\&.TH\n\\&'x"


def test_a_formatter_takes_it(tmp_path):
    if shutil.which("groff") is None:
        pytest.skip("there is no groff; `sudo apt-get install groff-base` brings it")
    file = tmp_path / "blazar-config.5"
    assert manual.main([str(file)]) == 0
    done = subprocess.run(["groff", "-man", "-ww", "-Kutf8", "-Tutf8", str(file)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "default: 11435; values: a whole number from 0 to 65535" in " ".join(done.stdout.split())


def test_usage():
    assert manual.main([]) == 2
