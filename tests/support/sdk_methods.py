"""Lists of what a client offers: tests/data/sdk-methods/NAME.txt, a method a line below the line that says its fate."""

from pathlib import Path

FOLDER = Path(__file__).parent.parent / "data" / "sdk-methods"


def fates(name: str) -> dict[str, str]:
    """`works`, `refused: why` or `local: why`, by method. A method that stands there twice is a mistake."""
    found: dict[str, str] = {}
    fate = ""
    for line in (FOLDER / f"{name}.txt").read_text().splitlines()[1:]:
        if line.startswith("# "):
            fate = line[2:]
        elif line:
            assert line not in found, line
            found[line] = fate
    assert {fate.split(":")[0] for fate in found.values()} <= {"works", "refused", "local"}
    return found
