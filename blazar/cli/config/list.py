"""`blazar config list`: every setting, its value and where that comes from."""

import argparse

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context

COLUMNS = ("KEY", "VALUE", "ORIGIN", "GROUP", "ACTIVE")


class List(Command):
    name = "list"
    help = "List every setting: its value, where that comes from, whether it is active"
    about = ("Works on this machine's own configuration and never asks a daemon. Secrets are not shown. A setting "
             "that is not active is known and checked, and this version does nothing with it yet: the list tells "
             "what it waits for.")
    examples = ("blazar config list", "blazar config list --changed", "blazar config list --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--changed", action="store_true", help="only those that differ from their defaults")
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.cli.config.named import shown
        from blazar.config.active import ACTIVE
        from blazar.config.registry import SETTINGS
        from blazar.config.waiting import waiting, waits_for
        config = context.config
        names = [name for name in SETTINGS if not args.changed or config.origin(name) != "default"]
        waits = {path: waits_for(path) for path, _ in waiting(ACTIVE)}
        entries = [{"key": name, "value": config.redacted(name), "origin": config.origin(name),
                    "active": name in ACTIVE, "waits_for": waits.get(name), "group": SETTINGS[name].group}
                   for name in names]
        rows = [[entry["key"], shown(entry["value"]), entry["origin"], entry["group"] or "",
                 _activity(entry["waits_for"])] for entry in entries]
        for path in (path for path in waits if path not in SETTINGS and not args.changed):
            rows.append([path, "", "", "", _activity(waits[path])])
            entries.append({"key": path, "value": None, "origin": None, "active": False, "waits_for": waits[path],
                            "group": None})
        context.out.table(COLUMNS, rows, entries)
        return 0


def _activity(waits: str | None) -> str:
    return "yes" if waits is None else f"not yet: waits for {waits}"
