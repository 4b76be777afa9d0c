"""`blazar engine`: the engine builds of this machine. Its sub-verbs stand in `cli/engine/`, one file each."""

from blazar.cli.command import CommandGroup
from blazar.cli.engine.build import Build
from blazar.cli.engine.check import Check
from blazar.cli.engine.install import Install
from blazar.cli.engine.lane import Lane
from blazar.cli.engine.list import List
from blazar.cli.engine.pin import Pin, Unpin
from blazar.cli.engine.prune import Prune
from blazar.cli.engine.remove import Remove
from blazar.cli.engine.rollback import Rollback
from blazar.cli.engine.show import Show
from blazar.cli.engine.update import Update
from blazar.cli.engine.use import Use


class Engine(CommandGroup):
    name = "engine"
    help = "Install, choose and look at engine builds"
    about = ("Works on this machine's data dir, whether or not a daemon runs; a running one is told. A build is called "
             "by its tag; several lie side by side, and one of them is in use.")
    examples = ("blazar engine list", "blazar engine show b11434")
    subverbs = (Update(), Install(), List(), Show(), Use(), Rollback(), Build(), Lane(), Check(), Prune(), Pin(),
                Unpin(), Remove())
