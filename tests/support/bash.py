"""One bash for several commands, whose variables outlive them."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path


class Bash:
    """`bash(command)` gives what it printed on both streams, and its exit code."""

    END = "--- end of a command ---"

    def __init__(self, env: Mapping[str, str], folder: Path | None = None) -> None:
        self.process = subprocess.Popen(["bash"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, cwd=folder)

    def __call__(self, command: str) -> tuple[str, int]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{command}\necho \"{self.END} $?\"\n")
        self.process.stdin.flush()
        said = ""
        while not (ended := re.search(rf"{self.END} (\d+)\n\Z", said)):
            line = self.process.stdout.readline()
            assert line, said
            said += line
        return said[:ended.start()].replace("\r", ""), int(ended[1])

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()
