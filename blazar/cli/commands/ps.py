"""`blazar ps`: the loaded models."""

import argparse
from datetime import UTC, datetime
from typing import Any

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context
from blazar.units import format_bytes, format_duration

COLUMNS = ("NAME", "SIZE", "ON CARDS", "CONTEXT", "UNLOADS")


class Ps(Command):
    name = "ps"
    help = "List the loaded models"
    about = ("Asks the daemon: the one that BLAZAR_HOST names, else that of this data dir. SIZE is all memory that a "
             "model was planned with, ON CARDS the part of it that lies there.")
    examples = ("blazar ps", "blazar ps --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        models = context.client.get("/api/ps")["models"]
        now = datetime.now(UTC)
        context.out.table(COLUMNS, [_row(model, now) for model in models], models)
        return 0


def _row(model: dict[str, Any], now: datetime) -> tuple[str, ...]:
    on_cards = format_bytes(model["size_vram"]) if model.get("size_vram") else "-"
    return (model["name"], format_bytes(model["size"]), on_cards, str(model.get("context_length", "")),
            unloads(model["expires_at"], now))


def unloads(expires_at: str, now: datetime) -> str:
    """When a model unloads, in words; a time years away stands for a model that stays."""
    left = (datetime.fromisoformat(expires_at) - now).total_seconds()
    if left > 365 * 86400:
        return "never"
    return f"in {format_duration(round(left))}" if left >= 1 else "now"
