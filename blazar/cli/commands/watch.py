"""`blazar watch`: the daemon live: models, slots, queue, speed, memory, and the last events."""

import argparse
import json
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from blazar.cli.command import Command
from blazar.cli.context import Context
from blazar.errors import BlazarError, UsageRefused

if TYPE_CHECKING:
    from blazar.cli.watching.view import Look

SHORTEST, LONGEST = 0.5, 3600.0
PAST = 3600
"""Seconds of the past whose events are shown first."""
KEPT = 100
"""Events that may be shown."""


class Watch(Command):
    name = "watch"
    help = "Watch the daemon: models, slots, queue, tokens a second, memory"
    about = ("Asks the daemon of this data dir, or the one that BLAZAR_HOST names, again and again, until Ctrl-C. "
             "SLOTS is how many are busy of how many there are, QUEUE the requests that wait for one, TOK/S what "
             "streams get. Without a terminal that can be drawn on, it prints each look after the other.")
    examples = ("blazar watch", "blazar watch --once", "blazar watch --interval 5 --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="print how it is, and end")
        parser.add_argument("--interval", type=float, default=1.0, metavar="SECONDS", help="between two looks (1)")
        parser.add_argument("--json", action="store_true", help="print one JSON object a look, each on a line")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.cli.output import printable
        from blazar.cli.watching.screen import Screen
        from blazar.cli.watching.view import lines
        if not SHORTEST <= args.interval <= LONGEST:
            raise UsageRefused(f"--interval is {args.interval:g}; write seconds from {SHORTEST:g} to {LONGEST:g}")
        watched = _Watched(context)
        watched.look()
        if args.once or args.json or not context.out.interactive or context.env.get("TERM") == "dumb":
            return _print(watched, args, context)
        with Screen(sys.stdout) as screen:
            while True:
                try:
                    told = lines(watched.look(), list(watched.events), *screen.size())
                except BlazarError as error:
                    told = [str(error)[:screen.size()[0]]]
                screen.draw([printable(line) for line in told])
                time.sleep(args.interval)


def _print(watched: "_Watched", args: argparse.Namespace, context: Context) -> int:
    """Each look after the other, or one: the first has passed, since speeds need two."""
    from blazar.cli.watching.screen import USUAL
    from blazar.cli.watching.view import lines
    while True:
        time.sleep(args.interval)
        now = watched.look()
        context.out.line(json.dumps(now.plain()) if args.json else
                         "\n".join(lines(now, list(watched.events), *USUAL)) + "\n" * (not args.once))
        if args.once:
            return 0


class _Watched:
    """The looks at one daemon, one after the other."""

    def __init__(self, context: Context) -> None:
        from blazar.cli.watching.source import Source
        self._source = Source(context, PAST)
        self._last: Look | None = None
        self.events: deque[dict[str, Any]] = deque(maxlen=KEPT)

    def look(self) -> "Look":
        """How it is now. Raises DaemonUnreachable and its kin."""
        from blazar.cli.watching.view import look
        self.events.extend(self._source.news())
        self._last = look(time.monotonic(), self._source.families(), self._last)
        return self._last
