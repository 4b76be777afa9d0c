#!/usr/bin/env python3
"""A stand-in for llama-bench. Standard library only; `--help` is that of the real one (b11434).

The scenario is read from `<this program>.json`; all keys are optional:

  rates     tokens a second of prompt and generation, [500.0, 50.0] by default
  fails     text on stderr before exit code 1
  crash     signal number to die of
  output    what is printed instead of the figures

Each start appends its argv to `<this program>.starts`.
"""

import json
import os
import sys
from pathlib import Path

HELP = Path(__file__).resolve().parent.parent / "data" / "help" / "llama-bench-b11434.txt"
ME = Path(sys.argv[0])


def main() -> int:
    words = sys.argv[1:]
    play = json.loads(Path(f"{ME}.json").read_text()) if Path(f"{ME}.json").exists() else {}
    with open(f"{ME}.starts", "a") as starts:
        starts.write(json.dumps(words) + "\n")
    if "--help" in words:
        print(HELP.read_text(), end="")
        return 0
    if "crash" in play:
        os.kill(os.getpid(), play["crash"])
    if "fails" in play:
        print(play["fails"], file=sys.stderr)
        return 1
    if "output" in play:
        print(play["output"])
        return 0
    given = dict(zip(words[::2], words[1::2], strict=True))
    prompt, generate, runs = (int(given[flag]) for flag in ("-p", "-n", "-r"))
    rates = play.get("rates", [500.0, 50.0])
    entry = {"build_commit": "stub", "build_number": 11434, "cpu_info": "a processor", "backends": "CPU",
             "n_threads": 2, "model_filename": given["-m"], "stddev_ts": 1.5, "samples_ns": [1] * runs}
    tests = [(prompt, 0, rates[0])] * bool(prompt) + [(0, generate, rates[1])] * bool(generate)
    print(json.dumps([{**entry, "n_prompt": read, "n_gen": written, "avg_ts": rate} for read, written, rate in tests]))
    return 0


raise SystemExit(main())
