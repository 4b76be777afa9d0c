"""`blazar upgrade`: replace this Blazar by a newer one."""

import argparse

from blazar.cli.command import Command
from blazar.cli.context import Context


class Upgrade(Command):
    name = "upgrade"
    help = "Replace this Blazar with a newer one"
    about = ("Only where pip installed it: pip finds the version, and every file is checked against its sha256. A "
             "Blazar that came with the system's packages is upgraded by apt, a checkout by git; both are told. "
             "Models, engines and the configuration stay.")
    examples = ("blazar upgrade --dry-run", "blazar upgrade", "blazar upgrade --version 0.2.0")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--version", dest="wanted", metavar="X", help="this version instead of the newest")
        parser.add_argument("--dry-run", action="store_true", help="show what would be installed and stop")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar import __version__
        from blazar.upgrade import carry_out, plan
        found = plan(args.wanted, context.env)
        if not found.packages:
            context.out.line(f"blazar {__version__} is {'installed already' if args.wanted else 'the newest'}")
            return 0
        for line in found.lines():
            context.out.line(line)
        if args.dry_run:
            context.out.line("nothing was changed")
            return 0
        carry_out(found, context.env)
        context.out.line(f"blazar is now {found.version}; a running daemon keeps the old one until it is restarted")
        return 0
