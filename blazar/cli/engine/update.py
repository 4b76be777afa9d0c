"""`blazar engine update`: the newest build of the channel, verified, compared and taken into use."""

import argparse

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context
from blazar.cli.engine.installing import installer, tell


class Update(Command):
    name = "update"
    help = "Install the newest engine build and take it into use"
    about = ("Works on this machine's data dir, whether or not a daemon runs. The build is downloaded, checked against "
             "its sha256, put beside the others and compared with the one in use; if it is slower than "
             "BLAZAR_ENGINE_GATE allows, it is not taken. An interrupted update goes on where it stopped when it is "
             "started again. Old builds beyond keep_tags are removed.")
    examples = ("blazar engine update", "blazar engine update --tag b11429", "blazar engine update --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--tag", metavar="TAG", help="the release to take, such as b11429 or v0.6.0")
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.engines.install.release import Releases
        with context.out.progress() as progress:
            outcome = installer(context, progress).update(Releases.configured(context.config.runtime), args.tag)
        tell(context, outcome)
        return 0
