"""`blazar serve`: run the daemon in the foreground."""

import argparse

from blazar.cli.command import Command
from blazar.cli.context import SETTING, Context


class Serve(Command):
    name = "serve"
    aliases = ("start",)
    help = "Run the daemon in the foreground"
    about = ("Works on this machine. Ctrl-C or SIGTERM ends it: running answers get shutdown_grace_secs, a second "
             "signal ends them at once; SIGHUP has the configuration read again. `--port 0` takes any free port and "
             "prints it.")
    examples = ("blazar serve", "blazar serve --port 8080", "blazar serve --host 0.0.0.0 --config ./blazar.toml")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", dest=f"{SETTING}host", metavar="ADDRESS", help="address to listen on")
        parser.add_argument("--port", dest=f"{SETTING}port", metavar="N", type=int,
                            help="port to listen on; 0 takes any free one")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.supervisor.daemon import serve
        for warning in context.config.warnings:
            context.out.note(warning)
        return serve(context.config, context.located.paths, reread=context.reader())
