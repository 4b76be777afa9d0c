"""A systemctl, and beside it a journalctl, that note how they are called and answer what the scenario says.

The scenario is `<program>.json`: {"show": text, "code": exit code, "error": text}. Calls go to `<program>.calls`.
"""

import json
import os
import sys
from pathlib import Path

program = Path(sys.argv[0])
scenario = json.loads(Path(f"{program}.json").read_text()) if Path(f"{program}.json").exists() else {}
with open(f"{program}.calls", "a") as calls:
    calls.write(json.dumps({"words": sys.argv[1:], "env": sorted(os.environ)}) + "\n")
if "show" in sys.argv or program.name == "journalctl":
    print(scenario.get("show", ""))
if "error" in scenario:
    print(scenario["error"], file=sys.stderr)
raise SystemExit(scenario.get("code", 0))
