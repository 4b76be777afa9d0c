"""`blazar service logs`: what the daemon has written, from systemd's journal."""

import argparse
import sys

from blazar.cli.command import Command
from blazar.cli.context import Context


class Logs(Command):
    name = "logs"
    help = "Show what the service has written into the journal"
    about = ("Works with systemd on this machine, by journalctl. Reading the journal of the machine's service takes "
             "root, or the group systemd-journal.")
    examples = ("blazar service logs", "blazar service logs --lines 500", "blazar service logs --follow")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("-f", "--follow", action="store_true", help="go on with what comes, until Ctrl-C")
        parser.add_argument("-n", "--lines", metavar="N", type=int, default=100, help="the last N lines (100)")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.cli.service.systemd import find
        from blazar.errors import UsageRefused
        if args.lines < 0:
            raise UsageRefused(f"--lines {args.lines}: a number of lines is 0 or more")
        sys.stdout.flush()
        return 1 if find(context.env).journal(args.lines, args.follow) else 0
