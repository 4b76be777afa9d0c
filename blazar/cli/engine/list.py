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
        from blazar.engines.builds import Builds
        builds = [build.to_dict() for build in Builds(context.located.paths).every()]
        context.out.table(COLUMNS, [_row(build) for build in builds], builds)
        if not builds and not args.json:
            context.out.note("no engine build is installed; `blazar engine update` gets the newest")
        return 0


def _row(build: dict[str, Any]) -> tuple[str, ...]:
    state = [word for word in ("active", "pinned") if build[word]]
    return (build["tag"], build["kind"], build["flavour"], ", ".join(state), build["installed_at"][:10],
            build["source"])
