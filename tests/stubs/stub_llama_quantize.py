#!/usr/bin/env python3
"""A stand-in for llama-quantize that plays faults. Standard library only; `--help` is that of the real one (b11434).

The scenario is read from `<this program>.json`; all keys are optional:

  dry_run   MiB that --dry-run foretells, None = the flag is unknown
  fails     text on stderr before exit code 1, with half a file written
  crash     signal number to die of, in the middle
  hang      after half a file, write `<this program>.pid` and wait for ever
  garbage   the result is no GGUF file

Each start appends its argv to `<this program>.starts`.
"""

import json
import os
import sys
import time
from pathlib import Path

HELP = Path(__file__).resolve().parent.parent / "data" / "help" / "llama-quantize-b11434.txt"
ME = Path(sys.argv[0])


def main() -> int:
    words = sys.argv[1:]
    play = json.loads(Path(f"{ME}.json").read_text()) if Path(f"{ME}.json").exists() else {}
    with open(f"{ME}.starts", "a") as starts:
        starts.write(json.dumps(words) + "\n")
    if "--help" in words:
        print(HELP.read_text(), end="")
        return 1  # as the real one
    if "--dry-run" in words:
        if play.get("dry_run") is None:
            return 1
        print(f"llama_model_quantize_impl: quant size  = {play['dry_run']:8.2f} MiB (4.50 BPW)", file=sys.stderr)
        return 0
    source, target = Path(words[-3]), Path(words[-2])
    content = source.read_bytes()
    print("[   1/   2] output.weight - [   64,   370,     1,     1], type =    f32, size = 0.090 MiB", flush=True)
    target.write_bytes(content[:len(content) // 2])
    if "crash" in play:
        os.kill(os.getpid(), play["crash"])
    if "hang" in play:
        Path(f"{ME}.pid").write_text(str(os.getpid()))
        time.sleep(600)
    if "fails" in play:
        print(play["fails"], file=sys.stderr)
        return 1
    print("[   2/   2] token_embd.weight - [   64,   370,     1,     1], type =    f32, size = 0.090 MiB", flush=True)
    target.write_bytes(b"no model" if play.get("garbage") else content + b"\0" * 32)
    return 0


raise SystemExit(main())
