"""`blazar engine use`: another installed build."""

import argparse

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context
from blazar.cli.engine.installing import installer, tell


class Use(Command):
    name = "use"
    help = "Take an installed engine build into use"
    about = ("Works on this machine's data dir; a running daemon is told, and the next load uses the build. Models "
             "that are loaded keep theirs. Nothing is compared.")
    examples = ("blazar engine use b11429",)

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("tag", metavar="TAG", help="a tag of `blazar engine list`")
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        with context.out.progress() as progress:
            tell(context, installer(context, progress).use(args.tag))
        return 0
