"""`python -m tools.bench [--quick]`: measure Blazar beside others, and say whether it keeps its promises.

Exits with 1 when a promise is broken or not measured for want of a reference, or a count does not agree; with 2 when it
cannot measure at all. build/bench/latest.json is that of the last run, a quick one too, of which there is no page.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blazar.units import format_duration
from tools.bench import counts, page, process, programs, promises, rounds, samples, together
from tools.bench.blazar_target import Blazar
from tools.bench.machine import Layout, describe, moment
from tools.bench.targets import LITELLM_VENV, Direct, Go, Haproxy, LiteLlm, Nginx, Proxy, Target
from tools.bench.workloads import WORKLOADS

QUICK_ROUNDS = 3
DEBIAN_PYTHON = "/usr/bin/python3"
NEEDED = ("falcon", "gevent", "gunicorn", "peewee", "requests", "toml", "tomlkit", "urllib3")
"""What Blazar imports there."""


def main() -> int:
    parser = argparse.ArgumentParser("python -m tools.bench", description="Measure Blazar beside others.")
    parser.add_argument("--quick", action="store_true", help="few rounds, and only direct, nginx, Go and Blazar")
    parser.add_argument("--rounds", type=int, metavar="N", help="how many rounds")
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD", choices=[one.name for one in WORKLOADS],
                        help="only these workloads, no samples of memory and starts; written to partial.json")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C, it ends what was started first
    try:
        count = options.rounds or (QUICK_ROUNDS if options.quick else together.ROUNDS)
        latest = measure(options.quick, count, options.only)
    except (programs.ProgramMissing, programs.BuildFailed, process.StartFailed, rounds.ClientFailed,
            subprocess.SubprocessError) as error:
        print(f"cannot measure: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("ended early: nothing was written", file=sys.stderr)
        return 130
    file = page.LATEST.with_name("partial.json") if options.only else page.LATEST
    file.write_text(json.dumps(latest, indent=1) + "\n")
    result = report(latest, file)
    if not (options.quick or options.only):
        page.main([str(file)])
    return result


def measure(quick: bool, count: int, only: list[str] | None) -> dict[str, Any]:
    """The content of latest.json."""
    began = time.monotonic()
    layout = Layout.here()
    say(f"{layout}; {count} rounds")
    if layout.client == layout.proxy:
        say("NOTE: with one core alone the figures say little")
    programs.find("taskset")
    programs.build_c("load")
    taken = samples.Taken()
    missing: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="blazar-bench-") as name, contextlib.ExitStack() as running:
        folder = Path(name)
        direct = Direct(layout, folder)
        running.enter_context(started(direct))
        others = [*references(layout, folder, direct.engine, quick, running, missing)]
        ends = blazars(layout, folder, quick, missing)
        for end in ends:
            say(f"starting {end.name}: {end.version()}")
            running.enter_context(started(end, lambda end=end: wake(end, taken, only)))
        workloads = [one for one in WORKLOADS if only is None or one.name in only]
        rows = rounds.interleaved([direct, *others, *ends], workloads, count, [end.name for end in ends], tell_row,
                                  random.Random())
        for end in ends if only is None else ():
            samples.busy(end, taken)
        versions = {target.name: target.version() for target in [*others, *ends]}
    subjects = {end.name: promises.OTHER_END_FACTOR if end.name == promises.OTHER_END else 1.0 for end in ends}
    return {"layout": str(layout), "rounds": count, "seconds": round(time.monotonic() - began, 1),
            "targets": promises.judge(rows, taken, subjects, missing),
            "raw": {"date": moment(), "machine": describe(), "programs": versions, "sources": programs.digest(),
                    "missing": missing, "samples": taken, "rows": rows}}


@contextlib.contextmanager
def started(target: Target, start: Any = None) -> Iterator[None]:
    try:
        (start or target.start)()
        yield
    finally:
        target.stop()


def wake(end: Blazar, taken: samples.Taken, only: list[str] | None) -> None:
    """Start one Blazar for the rounds, with the samples that its start offers."""
    end.prepare()
    if only is None:
        samples.starts(end, taken)
    end.start()
    if only is None:
        samples.idle(end, taken)
    end.load()


def references(layout: Layout, folder: Path, engine: str, quick: bool, running: contextlib.ExitStack,
               missing: dict[str, str]) -> Iterator[Proxy]:
    """The proxies to compare with, started; those that cannot be had here are `missing`, with what would bring them."""
    kinds: list[type[Proxy]] = [Nginx, Go] if quick else [Nginx, Haproxy, Go]
    if not quick and LiteLlm.is_there():
        kinds.append(LiteLlm)
    elif not quick:
        say(f"LEFT OUT litellm: {LITELLM_VENV} names no virtual environment with it")
    for kind in kinds:
        proxy = kind(layout, folder, engine)
        try:
            running.enter_context(started(proxy))
        except programs.ProgramMissing as error:
            missing[kind.name] = str(error)
            say(f"LEFT OUT {kind.name}: {error}")
        else:
            yield proxy


def blazars(layout: Layout, folder: Path, quick: bool, missing: dict[str, str]) -> list[Blazar]:
    """Blazar with this Python, and in a full run with Debian's too."""
    ends = [Blazar(layout, folder)]
    if quick or sys.executable == DEBIAN_PYTHON:
        return ends
    why = lacking(DEBIAN_PYTHON)
    if why:
        missing[promises.OTHER_END] = why
        say(f"LEFT OUT {promises.OTHER_END}: {why}")
    else:
        ends.append(Blazar(layout, folder, promises.OTHER_END, DEBIAN_PYTHON, programs.ROOT))
    return ends


def lacking(python: str) -> str:
    """Why a Python of Debian's cannot run Blazar, with the packages that it lacks; '' when it can."""
    if not os.access(python, os.X_OK):
        return f"there is no {python}"
    return programs.output([python, str(programs.ROOT / "tools" / "debian_end.py"), "--lacks", *NEEDED])


def tell_row(row: dict[str, Any]) -> None:
    client = row["client"]
    middle = client["latency_us"]["p50"] if client["latency_us"] else 0
    say(f"{row['round'] + 1}  {row['workload']:<11} {row['target']:<14} {client['rps']:>9,.0f}/s  "
        f"p50 {middle:>9,.0f} µs  {row['check']}")


def report(latest: dict[str, Any], file: Path) -> int:
    entries, raw = latest["targets"], latest["raw"]
    print()
    for name, entry in entries.items():
        print(f"{page.verdict(entry):<12} {page.value_of(entry):>8}  must {entry['must']:<8} aim {entry['aim']:<8} "
              f"{page.title_of(name)}")
        if entry.get("note"):
            print(f"{'':<12} {entry['note']}")
    faults = []
    if not all(promises.met(entry, "must") for entry in entries.values()):
        faults.append("not all promises kept")
    if any(row["check"].startswith(counts.INVALID) for row in raw["rows"]):
        faults.append("not all counts agree")
    for name, why in raw["missing"].items():
        faults.append(f"{name} was left out: {why}")
    print("\n" + "\n".join(faults or ["all promises kept"]))
    print(f"it took {format_duration(latest['seconds'])}; the rows are in {file}")
    return 1 if faults else 0


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
