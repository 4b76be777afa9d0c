"""`blazar engine prune`: remove old builds."""

import argparse

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context
from blazar.cli.engine.installing import installer


class Prune(Command):
    name = "prune"
    help = "Remove old engine builds"
    about = ("Works on this machine's data dir. Of each kind the newest builds stay, as many as keep_tags says; the "
             "one in use, pinned ones and the local one stay on top of these.")
    examples = ("blazar engine prune",)

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        with context.out.progress() as progress:
            removed = installer(context, progress).prune()
        if removed:
            context.tell_daemon("changed", what="engines")
        if args.json:
            context.out.json({"removed": removed})
        else:
            context.out.line("\n".join(f"removed {tag}" for tag in removed) or
                             f"there is nothing to remove: keep_tags is {context.config.keep_tags}")
        return 0
