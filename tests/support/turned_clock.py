"""A clock that is set while programs run: a library of a few lines, preloaded into them."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_suffix(".c")


class TurnedClock:
    """What is started with `environment` has the date of `turn`, and what `leap` says has passed; skips the test where
    nothing can be compiled."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        library = folder / "turned_clock.so"
        if shutil.which("cc") is None:
            pytest.skip("there is no cc; `sudo apt-get install gcc libc6-dev` brings it")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, SOURCE], check=True)
        self.environment = {"LD_PRELOAD": str(library), "TURNED_CLOCK": str(self._file)}
        self._file.write_bytes(bytes(16))
        self._leapt = 0

    def turn(self, seconds: int) -> None:
        """Set it so many seconds beside the machine's."""
        self._write(0, seconds)

    def leap(self, seconds: int) -> None:
        """Let so many seconds of CLOCK_MONOTONIC pass at once."""
        self._leapt += seconds
        self._write(8, self._leapt)

    def _write(self, place: int, seconds: int) -> None:
        with self._file.open("r+b") as file:
            file.seek(place)
            file.write(struct.pack("=q", seconds))
