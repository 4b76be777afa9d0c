"""`blazar engine remove`: one build less."""

import argparse

from blazar.cli.command import Command
from blazar.cli.context import Context
from blazar.cli.engine.installing import installer


class Remove(Command):
    name = "remove"
    aliases = ("rm",)
    help = "Remove an engine build"
    about = ("Works on this machine's data dir. The build in use is not removed; of a build that lies outside the data "
             "dir only the entry goes.")
    examples = ("blazar engine remove b11400",)

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("tag", metavar="TAG", help="a tag of `blazar engine list`")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        with context.out.progress() as progress:
            build = installer(context, progress).remove(args.tag)
        context.tell_daemon("changed", what="engines")
        context.out.line(f"removed {build.tag}")
        return 0
