"""Random schedules around the gateway: `tools/schedules.py [--count N] [--first N] [--only N]`.

Clients and children arrive, stall and close at random (tests/support/schedules.py); afterwards no descriptor, greenlet,
lease, slot of an API key or reserved token may be left, and each request that was counted has its one line in the audit
log. Schedule number N is always the same. Exits with 1 when something was left, or one did not end.

With PYTHONPATH=build/compiled and `python -P` it is the compiled form that is tried.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # run as a file, the checkout is not on the path; a compiled copy stays before it

from blazar.proxy.wire import listening  # noqa: E402
from tests.support.schedules import Course  # noqa: E402

WARM_UP = 50
"""Schedules before the count of what is held, so that everything is loaded."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":", 1)[0])
    parser.add_argument("--count", type=int, default=10_000, help="schedules to try (10000)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--only", type=int, help="try this one again")
    asked = parser.parse_args()
    numbers = range(asked.first, asked.first + asked.count) if asked.only is None else [asked.only]
    with tempfile.TemporaryDirectory(prefix="blazar-schedules-") as folder:
        course = Course(Path(folder))
        for number in range(WARM_UP):
            course.play(-1 - number)
        before, began = course.held(), time.monotonic()
        for number in numbers:
            course.play(number)
            if left := course.left():
                print(f"FAULT: schedule {number} left {left}")
                return 1
        after = course.held()
        course.close()
    form = "sources" if listening.__file__.endswith(".py") else "compiled form"
    print(f"{len(numbers)} schedules of the {form} in {time.monotonic() - began:.0f} s: descriptors {before[0]} -> "
          f"{after[0]}, greenlets {before[1]} -> {after[1]}, {course.lines} requests counted and as many audit lines; "
          "no lease, slot or reserved token is left")
    return 0 if after == before else 1


if __name__ == "__main__":
    raise SystemExit(main())
