"""A process of its own that downloads: `python fetching.py URL TARGET CONNECTIONS [SHA256]`, for tests that kill it.

Prints one line at each step of the progress and at the end the digest; an error of ours is its last line, exit code 1.
"""

import resource
import sys
from pathlib import Path

from blazar.download.fetch import Source, fetch
from blazar.errors import BlazarError


def main(url: str, target: str, connections: str, sha256: str | None = None) -> int:
    def progress(stage: str, done: int, total: int | None) -> None:
        print(stage, done, total, flush=True)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        fetched = fetch(Source(url, sha256), Path(target), progress, connections=int(connections))
    except BlazarError as error:
        print(error)
        return 1
    print("grew", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, "KiB")
    print(fetched.sha256)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
