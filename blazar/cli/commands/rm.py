"""`blazar rm`: remove installed models."""

import argparse

from blazar.cli.command import Command
from blazar.cli.context import Context


class Rm(Command):
    name = "rm"
    words = "models"
    help = "Remove installed models"
    about = ("Asks the daemon; without one it works on this machine's store and says so. With BLAZAR_HOST set it only "
             "ever asks that daemon.")
    examples = ("blazar rm smollm2-135m", "blazar rm solo:q4_0 solo:q8_0")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("models", metavar="MODEL", nargs="+", help="the name of a model")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        daemon = context.ask_daemon()
        for model in args.models:
            stays = self._remove(model, daemon, context)
            also = f", another name for {stays}, which stays; `blazar rm {stays}` removes that too" if stays else ""
            context.out.line(f"removed {model}{also}")
        return 0

    @staticmethod
    def _remove(model: str, daemon: bool, context: Context) -> str | None:
        """Remove what is called `model`; the model that stays, when that was only an alias of it."""
        if daemon:
            stays = context.client.delete("/api/delete", {"model": model}).get("stays")
            return str(stays) if stays else None
        removed = context.store.remove(model)
        context.tell_daemon("changed", what="store")  # one that runs, but did not answer HTTP
        return removed["name"] if removed["stays"] else None
