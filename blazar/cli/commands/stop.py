"""`blazar stop`: unload a model, so that its memory is free."""

import argparse

from blazar.cli.command import Command
from blazar.cli.context import Context


class Stop(Command):
    name = "stop"
    help = "Unload a model"
    about = "Asks the daemon. The model stays installed and loads again at its next request."
    examples = ("blazar stop smollm2-135m",)

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model", metavar="MODEL", help="the model's name")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        context.client.post("/api/generate", {"model": args.model, "keep_alive": 0, "stream": False})
        context.out.line(f"unloaded {args.model}")
        return 0
