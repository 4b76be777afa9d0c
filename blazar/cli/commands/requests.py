"""`blazar requests`: what the daemon is busy with, and ending one of it."""

import argparse
from typing import Any
from urllib.parse import quote

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context
from blazar.errors import RequestMissing
from blazar.units import format_duration

COLUMNS = ("ID", "STATE", "AGE", "TOKENS", "MODEL", "KEY", "PATH", "CLIENT")
ENDED = ("ID", "STATUS", "TOOK", "TOKENS", "MODEL", "KEY", "PATH", "ENDED WITH")
USUAL = 20


class Requests(Command):
    name = "requests"
    help = "List the requests that are under way, and cancel one"
    about = ("Asks the daemon of this data dir, whose owner sees the requests of all API keys; or the one that "
             "BLAZAR_HOST names, which tells of those of the key in BLAZAR_API_KEY. Nothing is shown of what was said.")
    examples = ("blazar requests", "blazar requests --finished", "blazar requests --cancel req_0123456789ab")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        what = parser.add_mutually_exclusive_group()
        what.add_argument("--finished", action="store_true", help=f"the last {USUAL} that have ended, instead")
        what.add_argument("--cancel", metavar="ID", help="end the requests with this id; their clients get an error")
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        if args.cancel is not None:
            cancelled = _cancel(context, args.cancel)
            context.out.line(f"cancelled {args.cancel}" if cancelled == 1 else f"cancelled {cancelled} requests with "
                             f"the id {args.cancel}")
            return 0
        found = _told(context)
        if args.finished:
            context.out.table(ENDED, [_ended(row) for row in found["finished"]], found["finished"])
        else:
            context.out.table(COLUMNS, [_under_way(row) for row in found["requests"]], found["requests"])
        return 0


def _told(context: Context, cancel: str | None = None) -> dict[str, Any]:
    """What the control socket of this data dir says, else the daemon that this call means."""
    from blazar.cli.client import ask_daemon_of
    if not context.env.get("BLAZAR_HOST"):
        found = ask_daemon_of(context.located.paths, "requests", key=None, finished=USUAL, cancel=cancel)
        if found is not None:
            return found
    if cancel is not None:
        return context.client.delete(f"/api/requests/{quote(cancel, safe='')}", {})
    return context.client.get(f"/api/requests?finished={USUAL}")


def _cancel(context: Context, id: str) -> int:
    cancelled: int = _told(context, id)["cancelled"]
    if not cancelled:
        raise RequestMissing(f"no request {id[:100]!r} is under way; `blazar requests` lists those that are")
    return cancelled


def _under_way(row: dict[str, Any]) -> tuple[str, ...]:
    return (row["id"], row["state"], format_duration(round(row["age_secs"])), str(row["tokens"] or "-"),
            row["alias"] or row["model"] or "-", row["key"] or "-", row["path"], row["client"] or "-")


def _ended(row: dict[str, Any]) -> tuple[str, ...]:
    tokens = f"{row['prompt_tokens']} + {row['completion_tokens']}"
    return (row["id"], str(row["status"]), f"{row['total_ms'] / 1000:.2f} s", tokens,
            row["alias"] or row["model"] or "-", row["key"] or "-", row["path"] or "-", row["error"] or "-")
