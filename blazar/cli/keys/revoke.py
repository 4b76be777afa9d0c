"""`blazar keys revoke`: take an API key back."""

import argparse

from blazar.cli.command import Command
from blazar.cli.context import Context
from blazar.errors import UsageRefused


class Revoke(Command):
    name = "revoke"
    aliases = ("rm",)
    help = "Take an API key back"
    about = ("Works on this machine's settings file: the key's entry is taken out, and all else stays as it is. A "
             "running daemon is told and refuses the key from then on; its requests that are under way may end, and "
             "what it has used stays noted.")
    examples = ("blazar keys revoke ann", "blazar keys revoke ann --open")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the name of an API key, as `blazar keys list` shows it")
        parser.add_argument("--open", action="store_true",
                            help="do it even if no key is left, and everybody is let in from then on")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.cli.keys.known import BOOTSTRAP, find, known, tell
        from blazar.config.edit_keys import remove_key
        keys = known(context)
        key = find(keys, args.name)
        if key.place is None:
            raise UsageRefused(f"{key.name} stands in the environment variable {BOOTSTRAP}: take it out there, and "
                               f"start the daemon anew")
        elsewhere = sum(other.place is None for other in keys)

        def check(others: int) -> None:
            if not (others or elsewhere or args.open):
                raise UsageRefused(f"{key.name} is the only API key, and without one everybody who reaches the server "
                                   f"is let in; make another one first (`blazar keys add NAME`), or say --open")

        remove_key(context.located.config_file, key.fields["key"], check)
        context.out.line(f"revoked {key.name}")
        tell(context, key.name, here=False)
        return 0
