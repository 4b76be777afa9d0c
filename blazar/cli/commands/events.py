"""`blazar events`: what happens in the daemon."""

import argparse
import json
import time
from collections.abc import Callable

from blazar.cli.command import Command
from blazar.cli.context import Context
from blazar.errors import BlazarError, UsageRefused
from blazar.units import parse_duration

PAUSE = 0.5
"""Seconds between two looks for new events."""


class Events(Command):
    name = "events"
    help = "Show what happens in the daemon: loads, evictions, ends of engines, pulls"
    about = ("Asks the daemon of this data dir, or the one that BLAZAR_HOST names. It keeps the last 1,024 "
             "events while it runs. With --follow those that come are shown too, over restarts of the daemon.")
    examples = ("blazar events", "blazar events --since 10m", "blazar events -f --since 0", "blazar events --json")

    def __init__(self, pause: Callable[[], object] = lambda: time.sleep(PAUSE)) -> None:
        self._pause = pause

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("-f", "--follow", action="store_true", help="go on with those that come, until Ctrl-C")
        parser.add_argument("--since", metavar="TIME", default="24h", help="how far back, such as 10m (24h)")
        parser.add_argument("--json", action="store_true", help="print one JSON object a line")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.cli.watching.source import Source, sentence
        source = Source(context, _age(args.since))
        for event in source.news():
            context.out.line(json.dumps(event, ensure_ascii=False) if args.json else sentence(event))
        silent = False
        while args.follow:
            self._pause()
            context.out.look()
            try:
                news, silent = source.news(), False
            except BlazarError as error:
                if not silent:
                    context.out.note(f"{error}; trying again")
                news, silent = [], True
            for event in news:
                context.out.line(json.dumps(event, ensure_ascii=False) if args.json else sentence(event))
        return 0


def _age(text: str) -> int:
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 99999:
        raise UsageRefused(f"--since is {text!r}; write how far back to go, such as 90s, 10m or 2h, up to 27h")
    return round(seconds)
