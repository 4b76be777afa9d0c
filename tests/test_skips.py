"""The rule of tests/conftest.py: what is left out under CI=true is a failure, unless it was named."""

import os
import subprocess
import sys

import pytest

TESTS = """
import pytest
def test_module(): pytest.importorskip("no_such_module")
def test_piece(): pytest.skip("no curl here")
def test_right(): pass
"""
MODULE = "import pytest\npytest.importorskip('no_such_module')\ndef test_never(): pass\n"


@pytest.mark.parametrize(("ci", "options", "outcome"), [
    ("true", [], "2 failed, 1 passed"), ("true", ["--may-lack", "other,no_such_module"], "1 failed, 1 passed, 1 skip"),
    ("", [], "1 passed, 2 skipped")])
def test_a_skip_is_a_failure_under_ci(tmp_path, ci, options, outcome):
    (tmp_path / "test_some.py").write_text(TESTS)
    assert outcome in said(tmp_path, ci, options)


@pytest.mark.parametrize(("options", "outcome"), [([], "1 error"), (["--may-lack", "no_such_module"], "1 skipped")])
def test_so_is_a_skipped_file(tmp_path, options, outcome):
    (tmp_path / "test_some.py").write_text(MODULE)
    assert outcome in said(tmp_path, "true", options)


def said(folder, ci, options):
    """The last line of a pytest that runs the tests in `folder`."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-c", os.devnull, "--rootdir", str(folder)]
    env = {**os.environ, "CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run([*command, *options, str(folder)], env=env, text=True, capture_output=True)
    return done.stdout.splitlines()[-1]
