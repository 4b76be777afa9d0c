"""`blazar list`: the installed models."""

import argparse
from typing import Any

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context
from blazar.units import format_bytes

COLUMNS = ("NAME", "ID", "SIZE", "QUANTIZATION", "MODIFIED")


class List(Command):
    name = "list"
    aliases = ("ls",)
    help = "List the installed models"
    about = ("Asks the daemon; without one it reads this machine's store and says so. With BLAZAR_HOST set it only "
             "ever asks that daemon.")
    examples = ("blazar list", "blazar list --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.proxy.dialects.ollama_listing import tags
        if context.ask_daemon():
            models = context.client.get("/api/tags")["models"]
        else:
            models = tags(context.store.snapshot_models())["models"]
        context.out.table(COLUMNS, [_row(model) for model in models], models)
        return 0


def _row(model: dict[str, Any]) -> tuple[str, ...]:
    return (model["name"], model["digest"].removeprefix("sha256:")[:12], format_bytes(model["size"]),
            model["details"]["quantization_level"], model["modified_at"][:16].replace("T", " "))
