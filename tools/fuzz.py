"""Throw spoilt input at Blazar: `tools/fuzz.py [--target T] [--count N | --seconds S] [--seed N] [--only N]`.

Targets: `pure` (parsers and translators in this process), `bodies` and `heads` (to a running gateway), `streams` (from
the engine behind it), `all` (a share of each). Input number N of a target is always the same for the same seed, so a
fault is repeated with `--only N`; its bytes are kept in fuzz-faults/. Exits with 1 when anything was at fault: a 5xx of
ours, a wait, an answer not in its dialect's shape, an error in a log, or a growth of memory, descriptors or threads.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # run as a file, the checkout is not on the path

from tests.support.fuzz.bodies import Bodies  # noqa: E402
from tests.support.fuzz.fault import Fault, Target  # noqa: E402
from tests.support.fuzz.heads import Heads  # noqa: E402
from tests.support.fuzz.pure import Pure  # noqa: E402
from tests.support.fuzz.running import Running, growth  # noqa: E402
from tests.support.fuzz.streams import Streams  # noqa: E402

SHARES = {"pure": 50, "bodies": 20, "streams": 20, "heads": 10}
"""Percent of the inputs of `all`."""
WARM_UP = 0.1
"""Share of a target's inputs that are tried before memory is measured, so that caches are full."""
GROWTH = 16 << 20
"""Bytes that a process may grow by after that."""
MOST_FAULTS = 20


class Run:
    """Tries inputs of one target and keeps the score."""

    def __init__(self, name: str, target: Target, seed: int, faults: Path) -> None:
        self.name = name
        self.outcomes: Counter[str] = Counter()
        self.faults: list[str] = []
        self.seconds = 0.0
        self._target = target
        self._seed = seed
        self._folder = faults

    def inputs(self, numbers: range, deadline: float) -> None:
        began = time.perf_counter()
        for number in numbers:
            if len(self.faults) >= MOST_FAULTS or time.monotonic() > deadline:
                break
            self.one(number)
        self._target.close()
        self.seconds += time.perf_counter() - began

    def one(self, number: int) -> None:
        try:
            outcome = self._target.try_one(Random(f"{self._seed}/{self.name}/{number}"), number)
        except Fault as fault:
            outcome = "FAULT"
            self._folder.mkdir(parents=True, exist_ok=True)
            kept = self._folder / f"{self.name}-{self._seed}-{number}"
            kept.write_bytes(fault.sent)
            self.faults.append(f"{fault}\n  input: {kept}\n  again: tools/fuzz.py --target {self.name} "
                               f"--seed {self._seed} --only {number}")
        self.outcomes[outcome] += 1

    def report(self) -> None:
        count = self.outcomes.total()
        print(f"{self.name}: {count} inputs in {self.seconds:.1f} s, {count / max(self.seconds, 1e-9):.0f}/s")
        print("  " + ", ".join(f"{outcome} {number}" for outcome, number in self.outcomes.most_common(24)))
        for fault in self.faults:
            print(f"  FAULT: {fault}")


def fuzz_alone(name: str, target: Target, asked: argparse.Namespace, count: int) -> bool:
    """Without a gateway; whether all was well."""
    run = Run(name, target, asked.seed, asked.faults)
    run.inputs(numbers(asked, count), deadline(asked))
    run.report()
    return not run.faults


def fuzz_running(names: list[str], asked: argparse.Namespace, counts: dict[str, int]) -> bool:
    """Each target on one running Blazar; whether all was well."""
    with tempfile.TemporaryDirectory(prefix="blazar-fuzz-") as folder, Running(Path(folder)) as running:
        kinds: dict[str, Callable[[int], Target]] = {"bodies": Bodies, "streams": Streams, "heads": Heads}
        runs = [Run(name, kinds[name](running.port), asked.seed, asked.faults) for name in names]
        end = deadline(asked)
        warm = 0 if asked.only is not None else WARM_UP
        for run in runs:
            run.inputs(range(int(counts[run.name] * warm)), end)
        before = running.held()
        for run in runs:
            run.inputs(numbers(asked, counts[run.name], int(counts[run.name] * warm)), end)
            run.report()
        wrong = growth(before, running.held(), GROWTH) + running.trouble()
        running.wake()
        for old, new in zip(before, running.held(), strict=True):
            print(f"{new.name}: {old.memory / 2**20:.1f} -> {new.memory / 2**20:.1f} MiB, {old.descriptors} -> "
                  f"{new.descriptors} descriptors, {old.threads} -> {new.threads} threads")
    for line in wrong[:MOST_FAULTS]:
        print(f"FAULT: {line}")
    return not wrong and not any(run.faults for run in runs)


def numbers(asked: argparse.Namespace, count: int, first: int = 0) -> range:
    return range(asked.only, asked.only + 1) if asked.only is not None else range(first, count)


def deadline(asked: argparse.Namespace) -> float:
    return time.monotonic() + asked.seconds if asked.seconds else float("inf")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":", 1)[0])
    parser.add_argument("--target", choices=[*SHARES, "all"], default="all")
    parser.add_argument("--count", type=int, default=2000, help="inputs to try (2000)")
    parser.add_argument("--seconds", type=float, default=0, help="end after so many seconds for each part")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="try this one input again")
    parser.add_argument("--faults", type=Path, default=ROOT / "fuzz-faults", help="where inputs at fault are kept")
    asked = parser.parse_args()
    names = list(SHARES) if asked.target == "all" else [asked.target]
    counts = {name: asked.count * SHARES[name] // 100 if asked.target == "all" else asked.count for name in names}
    well = True
    if "pure" in names:
        well = fuzz_alone("pure", Pure(), asked, counts["pure"])
    live = [name for name in names if name != "pure"]
    if live:
        well = fuzz_running(live, asked, counts) and well
    return 0 if well else 1


if __name__ == "__main__":
    raise SystemExit(main())
