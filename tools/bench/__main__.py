"""`python -m tools.bench [--quick]`: measure Blazar beside others, and say whether it keeps its promises.

Exits with 1 when a promise is broken or a count does not agree, with 2 when it cannot measure at all.
"""

import argparse
import contextlib
import datetime
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tools.bench import counts, page, process, programs, promises, rounds, samples
from tools.bench.blazar_target import Blazar
from tools.bench.machine import Layout, describe
from tools.bench.targets import LITELLM_VENV, Direct, Go, Haproxy, LiteLlm, Nginx, Proxy, Target
from tools.bench.workloads import WORKLOADS

QUICK_ROUNDS, FULL_ROUNDS = 3, 5
DEBIAN_PYTHON = "/usr/bin/python3"
NEEDED = "import falcon, gevent, gunicorn, peewee, requests, toml, tomlkit, urllib3"


def main() -> int:
    parser = argparse.ArgumentParser("python -m tools.bench", description="Measure Blazar beside others.")
    parser.add_argument("--quick", action="store_true", help="few rounds, and only direct, nginx, Go and Blazar")
    parser.add_argument("--rounds", type=int, metavar="N", help="how many rounds")
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD", choices=[one.name for one in WORKLOADS],
                        help="only these workloads, no samples of memory and starts; written to partial.json")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C, it ends what was started first
    try:
        count = options.rounds or (QUICK_ROUNDS if options.quick else FULL_ROUNDS)
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
    if not (options.quick or options.only):
        page.write(latest)
    return report(latest, file)


def measure(quick: bool, count: int, only: list[str] | None) -> dict[str, Any]:
    """The content of latest.json."""
    layout = Layout.here()
    say(f"{layout}; {count} rounds")
    if layout.client == layout.proxy:
        say("NOTE: with one core alone the figures say little")
    programs.find("taskset")
    programs.build_c("load")
    taken = samples.Taken()
    with tempfile.TemporaryDirectory(prefix="blazar-bench-") as name, contextlib.ExitStack() as running:
        folder = Path(name)
        direct = Direct(layout, folder)
        running.enter_context(started(direct))
        others = [*references(layout, folder, direct.engine, quick, running)]
        ends = blazars(layout, folder, quick)
        for end in ends:
            say(f"starting {end.name}: {end.version()}")
            running.enter_context(started(end, lambda end=end: wake(end, taken, only)))
        workloads = [one for one in WORKLOADS if only is None or one.name in only]
        rows = rounds.interleaved([direct, *others, *ends], workloads, count, [end.name for end in ends], tell_row,
                                  random.Random())
        for end in ends if only is None else ():
            samples.busy(end, taken)
        versions = {target.name: target.version() for target in [*others, *ends]}
    subjects = {end.name: 1.0 if end.name == "blazar" else promises.OTHER_END for end in ends}
    return {"layout": str(layout), "rounds": count, "targets": promises.judge(rows, taken, subjects),
            "raw": {"date": datetime.date.today().isoformat(), "machine": describe(), "programs": versions,
                    "samples": taken, "rows": rows}}


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


def references(layout: Layout, folder: Path, engine: str, quick: bool,
               running: contextlib.ExitStack) -> Iterator[Proxy]:
    """The proxies to compare with that can be had here, started; what is missing is said."""
    kinds: list[type[Proxy]] = [Nginx, Go] if quick else [Nginx, Haproxy, Go]
    if not quick and os.environ.get(LITELLM_VENV):
        kinds.append(LiteLlm)
    elif not quick:
        say(f"LEFT OUT litellm: {LITELLM_VENV} names no virtual environment with it")
    for kind in kinds:
        proxy = kind(layout, folder, engine)
        try:
            running.enter_context(started(proxy))
        except (programs.ProgramMissing, FileNotFoundError) as error:
            say(f"LEFT OUT {kind.name}: {error}")
        else:
            yield proxy


def blazars(layout: Layout, folder: Path, quick: bool) -> list[Blazar]:
    """Blazar with this Python, and in a full run with Debian's too."""
    ends = [Blazar(layout, folder)]
    if quick or sys.executable == DEBIAN_PYTHON:
        return ends
    if subprocess.run([DEBIAN_PYTHON, "-c", NEEDED], capture_output=True).returncode == 0:
        ends.append(Blazar(layout, folder, "blazar-debian", DEBIAN_PYTHON, programs.ROOT))
    else:
        say(f"LEFT OUT blazar-debian: {DEBIAN_PYTHON} lacks packages; `make test-debian` names them")
    return ends


def tell_row(row: dict[str, Any]) -> None:
    client = row["client"]
    middle = client["latency_us"]["p50"] if client["latency_us"] else 0
    say(f"{row['round'] + 1}  {row['workload']:<11} {row['target']:<14} {client['rps']:>9,.0f}/s  "
        f"p50 {middle:>9,.0f} µs  {row['check']}")


def report(latest: dict[str, Any], file: Path) -> int:
    entries = latest["targets"]
    print()
    for name, entry in entries.items():
        print(f"{page.verdict(entry):<12} {page.value_of(entry):>8}  must {entry['must']:<8} aim {entry['aim']:<8} "
              f"{page.title_of(name)}")
        if entry.get("note"):
            print(f"{'':<12} {entry['note']}")
    kept = all(promises.met(entry, "must") for entry in entries.values())
    sound = not any(row["check"].startswith(counts.INVALID) for row in latest["raw"]["rows"])
    print(f"\n{'all promises kept' if kept else 'not all promises kept'}; the rows are in {file}")
    return 0 if kept and sound else 1


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
