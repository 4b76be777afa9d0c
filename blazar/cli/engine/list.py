"""`blazar engine list`: the installed builds, and what else could serve a model."""

import argparse
import time
from collections.abc import Iterator
from typing import Any

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context
from blazar.units import format_duration

COLUMNS = ("TAG", "KIND", "FLAVOUR", "STATE", "INSTALLED", "SOURCE")


class List(Command):
    name = "list"
    aliases = ("ls",)
    help = "List the engine builds, and what else could serve a model"
    about = ("Works on this machine's data dir. Below the builds stand the programs that need no row: the one of "
             "BLAZAR_ENGINE_PATH, which then serves every model that is not pinned; a llama-server on PATH and the "
             "embedded engine, which serve when no build is in use.")
    examples = ("blazar engine list", "blazar engine list --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.cli.engine.found import every
        engines = [dict(one.facts) for one in every(context)]
        context.out.table(COLUMNS, [_row(engine) for engine in engines], engines)
        if not args.json:
            for sentence in _notes(engines, context):
                context.out.note(sentence)
        return 0


def _row(engine: dict[str, Any]) -> tuple[str, ...]:
    state = [word for word in ("active", "pinned") if engine[word]]
    return (engine["tag"], engine["kind"], engine["flavour"] or "", ", ".join(state),
            (engine["installed_at"] or "")[:10], engine["source"])


def _notes(engines: list[dict[str, Any]], context: Context) -> Iterator[str]:
    """That there is no build, and what was found the last time that somebody looked for a newer one."""
    from blazar.engines.install.currency import remembered
    if not any(engine["installed_at"] for engine in engines):
        yield "no engine build is installed; `blazar engine update` gets the newest"
    last = remembered(context.located.paths)
    if last and not last["current"] and last["active"] in [engine["tag"] for engine in engines if engine["active"]]:
        yield f"{last['line']} (as of {format_duration(time.time() - last['at'])} ago)"
