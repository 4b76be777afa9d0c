"""`blazar engine install embedded`: the engine out of the xllamacpp wheel, in an environment of its own."""

import argparse

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context
from blazar.cli.engine.installing import installer, tell


class Install(Command):
    name = "install"
    help = "Install the embedded engine from a Python package"
    about = ("Works on this machine's data dir. pip gets the xllamacpp wheel into a virtual environment below "
             "engines/, so nothing else on this machine changes; then it is compared and taken into use as `blazar "
             "engine update` does.")
    examples = ("blazar engine install embedded",)

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("engine", metavar="ENGINE", choices=["embedded"], help="embedded")
        parser.add_argument("--version", metavar="VERSION", help="version of the wheel (otherwise the one this Blazar "
                                                                 "was tested with)")
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        with context.out.progress() as progress:
            outcome = installer(context, progress).install_embedded(args.version)
        tell(context, outcome)
        return 0
