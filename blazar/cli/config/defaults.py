"""`blazar config defaults`: the defaults as a configuration file."""

import argparse

from blazar.cli.command import Command
from blazar.cli.context import Context


class Defaults(Command):
    name = "defaults"
    help = "Print the defaults as a configuration file"
    about = "A file that holds all of it means the same as none. Keys that are unset by default are left out."
    examples = ("blazar config defaults", "blazar config defaults > config.toml")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.config.render import defaults
        context.out.text(defaults())
        return 0
