"""`blazar engine rollback`: back to the build that was in use before."""

import argparse

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context
from blazar.cli.engine.installing import installer, tell


class Rollback(Command):
    name = "rollback"
    help = "Go back to the engine build that was in use before"
    about = ("Works on this machine's data dir, as `blazar engine use` does. The build that is left stays installed: "
             "another rollback returns to it.")
    examples = ("blazar engine rollback",)

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        with context.out.progress() as progress:
            tell(context, installer(context, progress).rollback())
        return 0
