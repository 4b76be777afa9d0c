"""`blazar engine check`: is the build in use the newest of its channel?"""

import argparse

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context

OUTDATED = 5


class Check(Command):
    name = "check"
    help = "Look whether a newer engine build is there"
    about = ("Asks the release server and installs nothing. The channel is update_channel: the newest of all releases, "
             "or the one that is marked stable. Exits with 0 when the build in use is current, and with 5 when an "
             "update is there.")
    examples = ("blazar engine check", "blazar engine check --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        import time

        from blazar.engines.builds import Builds
        from blazar.engines.install.currency import check, remember
        from blazar.engines.install.flavour import Machine
        from blazar.engines.install.release import Releases
        from blazar.engines.routing import KIND
        from blazar.hardware.census import census
        config = context.config
        found = check(Releases.configured(config.runtime), config.update_channel, config.engine_asset,
                      Machine.of(census()), Builds(context.located.paths).in_use(KIND))
        remember(context.located.paths, found, time.time())
        if args.json:
            context.out.json(found.to_dict())
        else:
            context.out.line(found.line())
        return 0 if found.is_current else OUTDATED
