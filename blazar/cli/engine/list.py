"""`blazar engine list`: the installed builds, and what else could serve a model."""

import argparse
from typing import Any

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context

COLUMNS = ("TAG", "KIND", "FLAVOUR", "STATE", "INSTALLED", "SOURCE")


class List(Command):
    name = "list"
    aliases = ("ls",)
    help = "List the installed engine builds"
    about = "Works on this machine's data dir."
    examples = ("blazar engine list", "blazar engine list --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        import time

        from blazar.engines.builds import Builds
        from blazar.engines.install.currency import remembered
        from blazar.units import format_duration
        builds = [build.to_dict() for build in Builds(context.located.paths).every()]
        context.out.table(COLUMNS, [_row(build) for build in builds], builds)
        if args.json:
            return 0
        if not builds:
            context.out.note("no engine build is installed; `blazar engine update` gets the newest")
        last = remembered(context.located.paths)
        if last and not last["current"] and last["active"] in [build["tag"] for build in builds if build["active"]]:
            context.out.note(f"{last['line']} (as of {format_duration(time.time() - last['at'])} ago)")
        return 0


def _row(build: dict[str, Any]) -> tuple[str, ...]:
    state = [word for word in ("active", "pinned") if build[word]]
    return (build["tag"], build["kind"], build["flavour"], ", ".join(state), build["installed_at"][:10],
            build["source"])
