"""`blazar engine pin` and `unpin`: keep a build, or no longer."""

import argparse

from blazar.cli.command import Command
from blazar.cli.context import Context


class Pin(Command):
    name = "pin"
    help = "Keep an engine build until it is unpinned"
    about = ("Works on this machine's data dir. A pinned build is neither removed after an update nor retired when it "
             "is a lane that the main engine has caught up with.")
    examples = ("blazar engine pin b11434",)
    pinned = True

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("tag", metavar="TAG", help="a tag of `blazar engine list`")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.engines.install.shelf import Shelf
        from blazar.models.engine import Engine
        shelf = Shelf(context.located.paths)
        with shelf.changing():
            build = shelf.builds.find(args.tag)
            Engine.pin(build.kind, build.tag, self.pinned)
        context.out.line(f"{build.tag} is {'pinned' if self.pinned else 'not pinned'} now")
        return 0


class Unpin(Pin):
    name = "unpin"
    help = "No longer keep an engine build that was pinned"
    about = "Works on this machine's data dir. The build counts again when old builds are removed."
    examples = ("blazar engine unpin b11434",)
    pinned = False
