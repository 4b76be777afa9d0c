"""`blazar service status`: what systemd knows of the daemon."""

import argparse
from collections.abc import Mapping

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context
from blazar.units import format_bytes

ASKED = ("LoadState", "ActiveState", "SubState", "Result", "UnitFileState", "FragmentPath", "MainPID", "NRestarts",
         "MemoryCurrent", "ActiveEnterTimestamp", "StatusText", "ExecMainStatus")

NOT_RUNNING = 4
"""The exit code when no daemon runs, as of a verb that none answers."""

ENDINGS = {"2": "its configuration was refused: `blazar config check` says why",
           "3": "its address is taken, or Blazar runs already: `blazar doctor` says by whom"}
"""What an exit code of the daemon means."""


class Status(Command):
    name = "status"
    help = "Tell what systemd knows of the daemon"
    about = ("Works with systemd on this machine. The exit code is 0 when the service is active, 4 when not. `blazar "
             "ps` tells what the daemon itself does.")
    examples = ("blazar service status", "blazar service status --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.cli.service.systemd import UNIT, find
        printed = find(context.env).run("show", UNIT, f"--property={','.join(ASKED)}")
        known = dict(line.partition("=")[::2] for line in printed.splitlines() if "=" in line)
        rows = rows_of(known)
        context.out.table(("what", "state"), rows, dict(rows))
        if known.get("LoadState") == "not-found":
            context.out.note("`blazar service install` sets it up")
        elif known.get("ActiveState") == "failed":
            context.out.note(ENDINGS.get(known.get("ExecMainStatus", ""), "`blazar service logs` has its last words"))
        return 0 if known.get("ActiveState") in ("active", "reloading") else NOT_RUNNING


def rows_of(known: Mapping[str, str]) -> list[tuple[str, str]]:
    """What a person wants of it; what systemd does not know is left out."""
    if known.get("LoadState") == "not-found":
        return [("state", "not installed")]
    memory = known.get("MemoryCurrent", "")
    rows = [("state", f"{known.get('ActiveState', '')} ({known.get('SubState', '')})"),
            ("says", known.get("StatusText", "")), ("since", known.get("ActiveEnterTimestamp", "")),
            ("pid", known.get("MainPID", "").removeprefix("0")),
            ("memory", format_bytes(int(memory)) if memory.isdecimal() and len(memory) < 19 else ""),
            ("restarts", known.get("NRestarts", "")), ("at boot", known.get("UnitFileState", "")),
            ("unit", known.get("FragmentPath", ""))]
    if known.get("ActiveState") == "failed":
        rows.insert(1, ("ended", f"{known.get('Result', '')}, exit code {known.get('ExecMainStatus', '')}"))
    return [(name, value) for name, value in rows if value]
