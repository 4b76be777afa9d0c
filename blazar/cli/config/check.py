"""`blazar config check`: read a configuration file and tell what is wrong with it."""

import argparse

from blazar.cli.command import Command
from blazar.cli.context import Context


class Check(Command):
    name = "check"
    help = "Read a configuration file and tell what is wrong with it"
    about = "Exits with 2 when a daemon would refuse the file. What it would only warn of is told on stderr."
    examples = ("blazar config check", "blazar config check ~/.config/blazar/config.toml")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", metavar="FILE", nargs="?", help="the file to check (otherwise the one in use)")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from pathlib import Path

        from blazar.config.load import load
        file = Path(args.file).expanduser() if args.file else context.located.config_file
        checked = load(file, context.env, must_exist=args.file is not None)
        for warning in checked.warnings:
            context.out.note(warning)
        if file.exists():
            context.out.line(f"{file} is right")
        else:
            context.out.line(f"there is no {file}: the defaults are in force")
        return 0
