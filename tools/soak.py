"""Let Blazar run under load and have it hurt: `tools/soak.py [--minutes M] [--seed N] [--transport tcp|unix]`.

Three models, room for two, the real engine; clients of three dialects that ask, and that leave at every moment;
children, gunicorn, its worker and the control connection are killed, frozen and cut at random. Afterwards every slot
and every place of an API key must be free, no process be left, nothing have grown, every answer be whole and as the
engine gives it, and every failure be explained. Prints figures; exits with 1 when something does not hold.
"""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # run as a file, the checkout is not on the path

from tests.support.soak.course import Course  # noqa: E402

MOST = 40
"""Lines of what does not hold."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":", 1)[0])
    parser.add_argument("--minutes", type=float, default=10.0, help="how long clients and faults run (10)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--transport", choices=["tcp", "unix"], default="tcp", help="between gateway and engines (tcp)")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="blazar-soak-") as folder:
        with Course(Path(folder), asked.transport, asked.seed) as course:
            course.run(asked.minutes * 60)
        for line in course.figures():
            print(line)
        for line in course.wrong[:MOST]:
            print(f"FAULT: {line}")
    print(f"{len(course.wrong)} faults of ours" if course.wrong else "all of it holds")
    return 1 if course.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
