"""docs/keys.md says what a person reads: its commands are run in order against a daemon, and their output compared."""

import re
import sys
from pathlib import Path

import pytest

from tests.support.bash import Bash
from tests.support.config_files import load_text
from tests.support.needs import need
from tests.support.pages import fits, steps
from tests.support.shell import StubShell
from tests.support.stub_model import install_stub
from tests.support.waiting import until

PAGE = Path(__file__).parent.parent.parent / "docs" / "keys.md"
TEXT = PAGE.read_text()


@pytest.fixture
def shell(tmp_path):
    shell = StubShell(tmp_path / "home")
    install_stub(shell.paths, "smollm2-135m", tmp_path / "home")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "blazar"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m blazar.cli.main "$@"\n')
    program.chmod(0o755)
    shell.env["PATH"] = f"{program.parent}:{shell.env['PATH']}"
    shell.start()
    yield shell
    shell.stop()


def test_the_page_from_top_to_bottom(shell):
    need("curl")
    bash = Bash(shell.env)
    try:
        for _, command, output in steps("docs/keys.md"):
            def said(command=command, output=output):
                text, _ = bash(command.replace("http://127.0.0.1:11435", shell.url))
                return (fits(output, text), text)
            matched, text = said()
            if command.startswith("blazar keys usage") and not matched:  # what is used is noted within a second
                matched = until(lambda: said()[0], 20, f"{command}\n{text}")
            assert matched, f"$ {command}\n{text}\n--- the page says:\n{output}"
    finally:
        bash.close()


def test_the_entry_of_the_page_is_right(tmp_path):
    [entry] = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    [key] = load_text(entry, tmp_path).keys
    assert key["name"] == "ann" and key["weight"] == 2.0 and all(key.values())
