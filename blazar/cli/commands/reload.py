"""`blazar reload`: have the daemon read its configuration again."""

import argparse
from typing import Any

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context
from blazar.errors import DaemonUnreachable, SupervisorGone

LIMIT = 600.0
"""Seconds in which a daemon has read its configuration and replaced its gateway."""


class Reload(Command):
    name = "reload"
    help = "Have the daemon read its configuration again"
    about = ("Asks the daemon of this data dir, or the one that BLAZAR_HOST names. No request fails or is cut: a model "
             "whose launch changes is loaded anew once its requests have ended, and answers that run go on. A file "
             "that is refused changes nothing. The same as SIGHUP, and as `systemctl reload blazar`.")
    examples = ("blazar reload", "blazar reload --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.supervisor.report import Report
        told = _ask(context)
        if context.out.as_json:
            context.out.json(Report.of(told).as_dict())
        else:
            for warning in told["warnings"]:
                context.out.note(warning)
            for line in Report.of(told).lines():
                context.out.line(line)
        return 1 if told["failed"] else 0


def _ask(context: Context) -> dict[str, Any]:
    """By the control socket of this data dir, unless another daemon is named."""
    from blazar.control import connect
    if context.env.get("BLAZAR_HOST"):
        return context.client.post("/api/reload", {})
    socket = context.located.paths.control_socket
    try:
        link = connect(socket)
    except SupervisorGone:
        raise DaemonUnreachable(url=str(socket)) from None
    try:
        return link.ask("reload", LIMIT)
    finally:
        link.close()
