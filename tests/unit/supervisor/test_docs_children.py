"""The numbers of docs/children.md are those of the code, and its examples are right."""

import re
from pathlib import Path

from blazar.config.load import load
from blazar.config.registry import SETTINGS
from blazar.supervisor.policies.preload import ENOUGH
from blazar.supervisor.policies.session_bank import ALL_TOGETHER, DISK_LEFT, LARGEST
from blazar.supervisor.sessions import SAVE_LIMIT

PAGE = (Path(__file__).parent.parent.parent.parent / "docs" / "children.md").read_text()


def test_numbers():
    for words in (f"for {SAVE_LIMIT:g} seconds at most", f"more than {LARGEST // 1024**2} MiB",
                  f"have {ALL_TOGETHER // 1024**3} GiB at most", f"leave {DISK_LEFT // 1024**3} GiB of",
                  f"`session_keep_secs` ({SETTINGS['session_keep_secs'].default})"):
        assert words in " ".join(PAGE.split()), words
    assert ENOUGH == 2 and "at least twice" in " ".join(PAGE.split())


def test_examples(tmp_path):
    for number, text in enumerate(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)):
        file = tmp_path / f"{number}.toml"
        file.write_text(text)
        assert load(file, {}).warnings == ()
