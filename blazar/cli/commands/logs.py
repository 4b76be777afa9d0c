"""`blazar logs`: what the daemon, its gateway and its engines have written."""

import argparse
import shlex
import time
from functools import partial
from pathlib import Path

from blazar.cli.command import Command
from blazar.cli.context import Context
from blazar.errors import LogUnreadable, UsageRefused

USUAL = 50
MOST = 1_000_000
LEVELS = ("debug", "info", "warn", "error")
DAEMON, GATEWAY = "daemon", "gateway"


class Logs(Command):
    name = "logs"
    help = "Show what the daemon and its engines have logged"
    about = ("Reads the files of this data dir, and asks no daemon. Without a name the daemon's own log is shown; "
             "`gateway` is that of its HTTP side, and a model's name that of its engine. --audit shows the trail of "
             "requests, one JSON object a line. `log_level` says what is logged at all.")
    examples = ("blazar logs", "blazar logs -f", "blazar logs --level warn --lines 200", "blazar logs smollm2-135m -f",
                "blazar logs --audit -f")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", nargs="?",
                            help="gateway, or a model, also by the beginning of its name (otherwise the daemon)")
        parser.add_argument("-f", "--follow", action="store_true", help="go on with the lines that come, until Ctrl-C")
        parser.add_argument("-n", "--lines", metavar="N", type=int, default=USUAL,
                            help=f"show the last N lines (otherwise {USUAL})")
        parser.add_argument("--level", choices=LEVELS,
                            help="only messages of this level and above, of the daemon or the gateway")
        parser.add_argument("--audit", action="store_true", help="the audit trail, instead")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.telemetry.reading import AtLeast, Log, anything
        file = _file(args, context)
        log = Log(file, AtLeast(args.level) if args.level else anything)
        try:
            lines = log.last(args.lines)
            for line in lines:
                context.out.line(line.decode(errors="replace"))
            if args.lines and not lines:
                context.out.note(f"nothing is logged in {file} yet" if not args.level
                                 else f"nothing of that level is logged in {file}")
            if args.follow:
                for line in log.follow(partial(_pause, context)):
                    context.out.line(line.decode(errors="replace"))
        except OSError as error:
            if error.filename is None:  # it is our own output that is refused
                raise
            raise _unreadable(file, error, context) from None
        return 0


def _pause(context: Context) -> None:
    from blazar.telemetry.reading import PAUSE
    time.sleep(PAUSE)
    context.out.look()


def _file(args: argparse.Namespace, context: Context) -> Path:
    if not 0 <= args.lines <= MOST:
        raise UsageRefused(f"--lines: write a number from 0 to {MOST}")
    if args.audit and (args.name or args.level):
        raise UsageRefused("--audit shows the trail of all models, without levels: leave the name and --level out")
    if args.audit:
        return context.located.paths.audit_log
    if args.name in (None, DAEMON):
        return context.located.paths.daemon_log
    file = _named(args.name, context)
    if args.level and args.name != GATEWAY:
        raise UsageRefused("--level is for the logs of the daemon and the gateway: engines have levels of their own")
    return file


def _named(name: str, context: Context) -> Path:
    """The log of a child, by its name or, if only one is like that, the beginning of it. Raises UsageRefused."""
    from urllib.parse import unquote
    folder = context.located.paths.run
    try:
        logs = {unquote(file.name.removesuffix(".log")): file for file in sorted(folder.iterdir())
                if file.name.endswith(".log") and file != context.located.paths.daemon_log}
    except FileNotFoundError:
        logs = {}
    except OSError as error:
        raise _unreadable(folder, error, context) from None
    if name in logs:
        return logs[name]
    begun = [known for known in logs if known.lower().startswith(name.lower())]
    if len(begun) == 1:
        return logs[begun[0]]
    known = ", ".join(begun or logs)
    raise UsageRefused(f"there is no log of {name}; " + (f"there is one of {known}" if known else
                       "engines have one once they were started"))


def _unreadable(path: Path, error: OSError, context: Context) -> LogUnreadable:
    from pwd import getpwuid
    remedy = "`blazar doctor` looks at the data dir"
    if isinstance(error, PermissionError):
        folder = context.located.paths.data_dir
        try:
            owner = getpwuid(folder.stat().st_uid).pw_name
        except (KeyError, OSError):
            owner = "root"
        line = shlex.join(["sudo", "-u", owner, "blazar", "--data-dir", str(folder), "logs"])
        remedy = f"its owner can: `{line}`"
    return LogUnreadable(path=path, reason=error.strerror or error, remedy=remedy)
