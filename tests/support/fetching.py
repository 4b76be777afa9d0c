"""A process of its own that downloads: `python -m tests.support.fetching URL TARGET CONNECTIONS [SHA256]`.

For tests that kill it, limit it or measure it. The progress goes to stderr as the verbs show it; an error of ours is
one line on stdout, with exit code 1, else what the memory grew by and the digest.
"""

import resource
import sys
from pathlib import Path

from blazar.cli.output import Output
from blazar.download.fetch import Source, fetch
from blazar.errors import BlazarError


def main(url: str, target: str, connections: str, sha256: str | None = None) -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with Output().progress() as progress:
            fetched = fetch(Source(url, sha256), Path(target), progress, connections=int(connections))
    except BlazarError as error:
        print(error)
        return 1
    print("grew", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, "KiB")
    print(fetched.sha256)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
