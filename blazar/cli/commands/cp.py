"""`blazar cp`: another name for an installed model."""

import argparse

from blazar.cli.command import Command
from blazar.cli.context import Context


class Cp(Command):
    name = "cp"
    help = "Give a model another name"
    about = ("The new name stands for the same files, so it takes no space, and stays when the old name is removed. "
             "With --alias it only points to the old name: the two share one loaded engine. Asks the daemon; without "
             "one it works on this machine's store and says so. With BLAZAR_HOST set it only ever asks that daemon.")
    examples = ("blazar cp smollm2-135m mine", "blazar cp --alias smollm2-135m gpt-4o")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("source", metavar="MODEL", help="the name of an installed model")
        parser.add_argument("name", metavar="NAME", help="its new name")
        parser.add_argument("--alias", action="store_true", help="only point to MODEL, and share its engine")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        if context.ask_daemon():
            context.client.post("/api/copy", {"source": args.source, "destination": args.name, "alias": args.alias})
        else:
            copy = context.store.alias if args.alias else context.store.copy
            copy(args.source, args.name)
            context.tell_daemon("changed", what="store")
        context.out.line(f"{args.name} is now {'an alias of' if args.alias else 'a copy of'} {args.source}")
        return 0
