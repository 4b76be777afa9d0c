"""`blazar keys list`: the API keys and their limits."""

import argparse
from typing import Any

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context

COLUMNS = ("NAME", "MODELS", "RPM", "TPM", "DAILY TOKENS", "MAX CONCURRENT", "WEIGHT", "FROM")
FIELDS = ("rpm", "tpm", "daily_tokens", "max_concurrent")


class List(Command):
    name = "list"
    aliases = ("ls",)
    help = "List the API keys and their limits"
    about = ("Reads this machine's settings file and BLAZAR_KEYS, and asks no daemon. Secrets and their hashes are not "
             "shown. `-` means no limit.")
    examples = ("blazar keys list", "blazar keys list --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.cli.keys.known import known
        keys = known(context)
        if not keys:
            context.out.note("there is no API key: everybody who reaches the server is let in; "
                             "`blazar keys add NAME` makes one")
        rows = [(key.name, ", ".join(key.fields["models"]) or "all", *(_shown(key.fields[name]) for name in FIELDS),
                 f"{key.fields['weight'] or 1:g}", key.source) for key in keys]
        context.out.table(COLUMNS, rows, [_plain(key.name, key.fields, key.source) for key in keys])
        return 0


def _shown(limit: int | None) -> str:
    return "-" if limit is None else str(limit)


def _plain(name: str, fields: Any, source: str) -> dict[str, Any]:
    return {"name": name, "models": list(fields["models"]), **{field: fields[field] for field in FIELDS},
            "weight": float(fields["weight"] or 1), "from": source}
