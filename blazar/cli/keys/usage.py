"""`blazar keys usage`: what the API keys have used."""

import argparse
from collections.abc import Iterable
from typing import Any

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context
from blazar.errors import UsageRefused

COUNTS = ("requests", "prompt_tokens", "completion_tokens")
MOST_DAYS = 3660


class Usage(Command):
    name = "usage"
    help = "Show what the API keys have used"
    about = ("Reads this machine's database, and asks no daemon; a running one is at most a few seconds ahead of it. "
             "Days begin at midnight UTC. Keys that were taken back are shown too.")
    examples = ("blazar keys usage", "blazar keys usage ann --days 7", "blazar keys usage --days 30 --by-model --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", nargs="?", help="an API key (otherwise all)")
        parser.add_argument("--days", metavar="N", type=int, default=1,
                            help="this many days, today included (otherwise today alone)")
        parser.add_argument("--by-model", action="store_true", help="each model on a row of its own")
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        if not 1 <= args.days <= MOST_DAYS:
            raise UsageRefused(f"--days: write a number from 1 to {MOST_DAYS}")
        rows = _summed(_rows(args, context), args.by_model)
        columns = ["KEY", "DAY", *(["MODEL"] if args.by_model else []), "REQUESTS", "PROMPT TOKENS",
                   "COMPLETION TOKENS", "TOKENS"]
        if not rows:
            context.out.note("nothing was used in that time")
        context.out.table(columns, [[str(value) for value in row.values()] for row in rows], rows)
        return 0


def _rows(args: argparse.Namespace, context: Context) -> list[dict[str, Any]]:
    from datetime import UTC, datetime, timedelta

    from blazar.cli.keys.known import find, known
    from blazar.models.api_usage import ApiUsage
    from blazar.models.base import close_database, open_database
    file = context.located.paths.database
    rows: list[dict[str, Any]] = []
    noted: list[str] = []
    if file.exists():
        open_database(file)
        try:
            rows = ApiUsage.since((datetime.now(UTC) - timedelta(days=args.days - 1)).date().isoformat())
            noted = ApiUsage.keys()
        finally:
            close_database()
    if args.name is None:
        return rows
    name = args.name if args.name in noted else find(known(context), args.name).name
    return [row for row in rows if row["key"] == name]


def _summed(rows: Iterable[dict[str, Any]], by_model: bool) -> list[dict[str, Any]]:
    """A row for each key and day, or for each model of these."""
    sums: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        names = {name: row[name] for name in ("key", "day", *(["model"] if by_model else []))}
        whole = sums.setdefault(tuple(names.values()), {**names, **dict.fromkeys((*COUNTS, "tokens"), 0)})
        for name in COUNTS:
            whole[name] += row[name]
        whole["tokens"] += row["prompt_tokens"] + row["completion_tokens"]
    return list(sums.values())
