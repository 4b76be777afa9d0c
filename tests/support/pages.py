"""Pages of the documentation as tests read them: the commands in their blocks, and what they print."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", *sorted(str(file.relative_to(ROOT)) for file in (ROOT / "docs").glob("*.md")))
ANYTHING = "…"
"""Stands in printed text for what differs from run to run."""


class Step(NamedTuple):
    line: int
    command: str
    printed: str


def steps(page: str) -> list[Step]:
    """The commands of a page in their order: lines of blocks that begin with `$ `, with those of a quote left open."""
    found, text = [], (ROOT / page).read_text()
    for block in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        line = text[:block.start()].count("\n") + 2
        for piece in re.split(r"(?m)^(?=\$ )", block[2]):
            if piece.startswith("$ "):
                command, printed = _parted(piece.removeprefix("$ "))
                found.append(Step(line, command, printed))
            line += piece.count("\n")
    return found


def _parted(text: str) -> tuple[str, str]:
    """The command, which goes on over the next line while a quote is open, and the rest."""
    lines = text.splitlines(keepends=True)
    count = next((number for number in range(1, len(lines)) if "".join(lines[:number]).count("'") % 2 == 0), len(lines))
    return "".join(lines[:count]).strip(), "".join(lines[count:])


def fits(printed: str, said: str) -> bool:
    """Whether `said` is what a page shows as `printed`; the width of columns does not count."""
    printed, said = (re.sub(" +", " ", text).replace(" \n", "\n") for text in (printed, said))
    form = ".*".join(map(re.escape, printed.strip().split(ANYTHING)))
    return re.fullmatch(form, said.strip(), re.DOTALL) is not None
