"""Engine programs made on the spot: small shell scripts that answer what one asks them about themselves."""

from pathlib import Path

HELP = Path(__file__).parent.parent / "data" / "help"


def program(file: Path, flags: str = "--model FILE", version: str = "version: 1 (abc)", then: str = "exit 1") -> Path:
    """An executable whose --help prints `flags` and whose --version prints `version`; otherwise it does `then`.

    Each start is noted, with its words, in `<file>.asked`.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.new")
    partial.write_text(f"#!/bin/sh\necho \"$*\" >> '{file}.asked'\ncase \"$1\" in\n"
                       f"--help) cat <<'END'\n{flags}\nEND\n;;\n--version) cat <<'END'\n{version}\nEND\n;;\n"
                       f"*) {then} ;;\nesac\n")
    partial.chmod(0o755)
    partial.replace(file)
    return file


def asked(file: Path) -> list[str]:
    """What the program was asked so far."""
    notes = Path(f"{file}.asked")
    return notes.read_text().splitlines() if notes.exists() else []
