"""`blazar engine show`: what is known of one build."""

import argparse

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context


class Show(Command):
    name = "show"
    help = "Show what is known of an engine build"
    about = "Works on this machine's data dir."
    examples = ("blazar engine show b11434", "blazar engine show b11434 --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("tag", metavar="TAG", help="the build's tag, as `blazar engine list` shows it")
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.engines.builds import Builds
        facts = Builds(context.located.paths).find(args.tag).to_dict()
        context.out.table(("FACT", "VALUE"), [(name, str(value)) for name, value in facts.items()], facts)
        return 0
