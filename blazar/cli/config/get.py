"""`blazar config get`: the value of one setting."""

import argparse
from typing import Any

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context
from blazar.errors import UsageRefused


class Get(Command):
    name = "get"
    help = "Print the value of one setting, as TOML writes it"
    about = "The value that is in force on this machine, wherever it comes from. Secrets are not shown."
    examples = ("blazar config get default_ctx", "blazar config get semantic_cache.enabled",
                "blazar config get model_overrides.qwen3-8b.ctx --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("key", metavar="KEY",
                            help="a setting, or a field of a table such as semantic_cache.enabled")
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.cli.config.named import shown
        value = _find(context.config, args.key)
        if args.json:
            context.out.json(value)
        else:
            context.out.line(shown(value))
        return 0


def _find(config: Any, key: str) -> Any:
    """The value of `port` or `semantic_cache.enabled`, without secrets; names within may hold dots."""
    from blazar.cli.config.named import declared_key
    name, _, rest = key.partition(".")
    declared_key(name)
    value = config.redacted(name)
    while rest:
        names = value if isinstance(value, dict) else {}
        field = max((one for one in names if f"{rest}.".startswith(f"{one}.")), key=len, default=None)
        if field is None:
            raise UsageRefused(f"there is no {key}; `blazar config get {name}` shows what {name} holds")
        value, rest = value[field], rest[len(field) + 1:]
    return value
