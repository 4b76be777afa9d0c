"""`python -m tools.bench.soak [--requests N] [--streams N]`: does the worker's memory grow in the long run?

Its PSS after so many requests and streams, against that after the first 10,000 requests; both at rest. Writes
build/bench/soak.json, from which the page takes it, or soak-partial.json after fewer than are promised. Exits with 1
when it grew by more than it may, or a count does not agree; with 2 when it cannot measure.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.bench import counts, machine, process, programs, rounds
from tools.bench.blazar_target import Blazar
from tools.bench.machine import Layout
from tools.bench.workloads import ALONE, Workload

FILE = programs.BUILD / "soak.json"
REQUESTS, STREAMS = 1_000_000, 10_000
"""After how many it is promised that memory has not grown."""
FIRST = 10_000
"""Requests after which memory is compared: by then everything is loaded and every cache is full."""
SLICE = 10_000
"""Requests of one run of the client."""
STREAM_SLICE = 1_000
MUST, AIM = 5.0, 1.0
"""Percent by which PSS may grow."""
REST = 6.0
"""Seconds until the worker counts as at rest. What it keeps for a minute, such as idle connections to the engine, it
keeps at each point."""


@dataclass(frozen=True)
class Point:
    """What the worker held once it had answered so much."""

    requests: int
    streams: int
    pss_mib: float
    own_mib: float
    """Of that, what is no part of a file. The rest falls when another program comes that has the same files, such as
    another Python, and rises when it goes."""
    descriptors: int


class Soak:
    """One Blazar; `points` is how it went."""

    def __init__(self, target: Blazar, rest: float = REST) -> None:
        self.points: list[Point] = []
        self.invalid: list[str] = []
        self._rest = rest
        self._target = target
        self._worker = target.worker_pid()
        self._requests = self._streams = 0

    def run(self, requests: int, streams: int) -> None:
        """The first 10,000 requests (or all, if there are fewer), then the others, then streams."""
        first = min(FIRST, requests)
        self._requests_of(first)
        self._note()
        for count in slices(requests - first, SLICE):
            self._requests_of(count)
        self._note()
        for count in slices(streams, STREAM_SLICE):
            self._streams_of(count)
        self._note()

    def _requests_of(self, count: int) -> None:
        self._row(f"--connections 64 --requests {count}")
        self._requests += count

    def _streams_of(self, count: int) -> None:
        self._row(f"--connections 64 --requests {count} --stream --tokens 16 --interval-us 500")
        self._streams += count

    def _row(self, options: str) -> None:
        row = rounds.run(self._target, Workload("soak", "", options, ALONE))
        if row["check"].startswith(counts.INVALID):
            self.invalid.append(row["check"])

    def _note(self) -> None:
        time.sleep(self._rest)
        descriptors = len(list((machine.PROC / str(self._worker) / "fd").iterdir()))
        pss, own = (machine.pss_mib([self._worker], part) for part in ("Pss", "Pss_Anon"))
        self.points.append(Point(self._requests, self._streams, pss, own, descriptors))
        print("{0.requests:>9,} requests {0.streams:>7,} streams  PSS {0.pss_mib:6.1f} MiB, {0.own_mib:.1f} of it "
              "without files  {0.descriptors} descriptors".format(self.points[-1]), flush=True)


def slices(count: int, size: int) -> list[int]:
    """`count` in parts of at most `size`."""
    return [size] * (count // size) + ([count % size] if count % size else [])


def growth(points: list[Point]) -> float:
    """Percent by which PSS has grown from the first point to the last."""
    return 100 * (points[-1].pss_mib / points[0].pss_mib - 1)


def is_whole(result: Mapping[str, Any]) -> bool:
    """Whether it had all the requests and streams after which something is promised."""
    last = result["points"][-1]
    return bool(last["requests"] >= REQUESTS and last["streams"] >= STREAMS)


def measure(requests: int, streams: int, rest: float = REST) -> dict[str, Any]:
    """The content of soak.json."""
    programs.build_c("load")
    layout = Layout.here()
    with tempfile.TemporaryDirectory(prefix="blazar-soak-") as name:
        blazar = Blazar(layout, Path(name))
        try:
            blazar.prepare()
            blazar.start()
            blazar.load()
            soak = Soak(blazar, rest)
            soak.run(requests, streams)
            version = blazar.version()
        finally:
            blazar.stop()
    return {"date": machine.moment(), "machine": machine.describe(), "program": version, "sources": programs.digest(),
            "value": round(growth(soak.points), 2), "must": f"<= {MUST:g}", "aim": f"<= {AIM:g}", "unit": "%",
            "points": [vars(point) for point in soak.points], "invalid": soak.invalid}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m tools.bench.soak", description="Does the worker grow?")
    parser.add_argument("--requests", type=int, default=REQUESTS, help=f"requests in all ({REQUESTS})")
    parser.add_argument("--streams", type=int, default=STREAMS, help=f"streams after them ({STREAMS})")
    parser.add_argument("--rest", type=float, default=REST, metavar="S",
                        help=f"seconds without work before each look at its memory ({REST:g})")
    asked = parser.parse_args(arguments)
    try:
        result = measure(asked.requests, asked.streams, asked.rest)
    except (programs.ProgramMissing, programs.BuildFailed, process.StartFailed, rounds.ClientFailed,
            subprocess.SubprocessError) as error:
        print(f"cannot measure: {error}", file=sys.stderr)
        return 2
    file = FILE if is_whole(result) else FILE.with_name("soak-partial.json")
    file.write_text(json.dumps(result, indent=1) + "\n")
    print(f"the worker's PSS has grown by {result['value']:.1f} % (must {result['must']}, aim {result['aim']}); "
          f"the points are in {file}")
    for line in result["invalid"]:
        print(line)
    return 0 if result["value"] <= MUST and not result["invalid"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
