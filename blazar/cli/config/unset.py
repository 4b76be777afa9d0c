"""`blazar config unset`: take one setting out of the settings file."""

import argparse

from blazar.cli.command import Command
from blazar.cli.context import Context
from blazar.errors import UsageRefused


class Unset(Command):
    name = "unset"
    help = "Take one setting out of the settings file, which puts its default in force"
    about = ("Works for a setting, for a field of a table and for a whole table. All other lines stay, comments too. "
             "The file is checked before it is written. API keys are taken back by `blazar keys revoke`.")
    examples = ("blazar config unset default_ctx", "blazar config unset model_overrides.qwen3-8b.ctx",
                "blazar config unset model_overrides.qwen3-8b")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("key", metavar="KEY", help="a setting, a table, or a field such as semantic_cache.enabled")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.cli.config.change import Check, tell, writing
        from blazar.cli.config.named import named
        from blazar.config.edit import unset
        key = named(args.key)
        if key.path == ("keys",):
            raise UsageRefused("API keys are not unset here: `blazar keys revoke NAME` takes one back")
        check = Check(context)
        with writing(context, "unset", args.key) as file:
            there = file.exists() and unset(file, key.path, check)
        if not there:
            context.out.note(f"{file} does not have {args.key}; nothing was changed")
            return 0
        context.out.line(f"{args.key} is no longer in {file}")
        tell(context, check, str(key.path[0]))
        return 0
