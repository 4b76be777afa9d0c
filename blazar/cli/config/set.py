"""`blazar config set`: give one setting a value, in the settings file."""

import argparse
from typing import TYPE_CHECKING

from blazar.cli.command import Command
from blazar.cli.context import Context
from blazar.errors import UsageRefused

if TYPE_CHECKING:
    from blazar.cli.config.named import Named


class Set(Command):
    name = "set"
    help = "Give one setting a value, in the settings file"
    about = ("Only its line changes: comments and order stay. The file is checked before it is written, as a "
             "daemon checks it. A list is written as in TOML, or with commas. API keys are made by `blazar keys add`, "
             "other lists of tables by `blazar config edit`.")
    examples = ("blazar config set default_ctx 32768", "blazar config set devices CUDA0,CUDA1",
                "blazar config set semantic_cache.enabled true", "blazar config set model_overrides.qwen3-8b.ctx 8192",
                "blazar config set model_overrides.qwen3-8b.sampler_defaults.temperature 0.2")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("key", metavar="KEY",
                            help="a setting, or a field of a table such as semantic_cache.enabled")
        parser.add_argument("value", metavar="VALUE", help="its value; write -- before KEY when it begins with a dash")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.cli.config.change import Check, tell, writing
        from blazar.cli.config.named import named, shown, value_of
        from blazar.config.edit import set_value
        from blazar.config.refusal import Refusal, Refusals, each
        from blazar.config.setting import HIDDEN
        key = named(args.key)
        _refuse_tables(key)
        try:
            value = value_of(args.value, key.type)
        except (Refusal, Refusals) as error:
            first = each(error)[0]
            raise UsageRefused(f"{args.key}: {first.problem}; {first.remedy}") from None
        check = Check(context)
        with writing(context, "set", args.key, HIDDEN if key.secret else args.value) as file:
            set_value(file, key.path, value, check)
        context.out.line(f"{args.key} = {shown(HIDDEN if key.secret else value)}")
        _tell_of_variables(key, context)
        tell(context, check, str(key.path[0]))
        return 0


def _refuse_tables(key: "Named") -> None:
    if key.path == ("keys",):
        raise UsageRefused("API keys are not set here, since only their hashes belong in the file: `blazar keys add "
                           "NAME` makes one")
    if key.is_list_of_tables and len(key.path) == 1:
        raise UsageRefused(f"{key.text} is a list of tables, which `blazar config edit` changes")
    if key.has_fields:
        raise UsageRefused(f"{key.text} is a table; set one field of it: `blazar config set {_example(key)} VALUE`")


def _example(key: "Named") -> str:
    from blazar.config.setting import Table
    kind = key.type
    within = "" if isinstance(kind, Table) else ".NAME"
    table = kind if isinstance(kind, Table) else getattr(kind, "item", None)
    return f"{key.text}{within}.{next(iter(table.fields))}" if isinstance(table, Table) else key.text


def _tell_of_variables(key: "Named", context: Context) -> None:
    from blazar.config.registry import SETTINGS
    for variable in SETTINGS[str(key.path[0])].variables:
        if context.env.get(variable):
            context.out.note(f"{variable} is set in this environment, and goes before the file")
