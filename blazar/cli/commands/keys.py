"""`blazar keys`: who may call this machine's server, and how much. Its sub-verbs stand in `cli/keys/`."""

from blazar.cli.command import CommandGroup
from blazar.cli.keys.add import Add
from blazar.cli.keys.list import List
from blazar.cli.keys.revoke import Revoke
from blazar.cli.keys.usage import Usage


class Keys(CommandGroup):
    name = "keys"
    help = "Give out API keys with limits, take them back, and see what they have used"
    about = ("Works on this machine's settings file and data dir; a running daemon is told and needs no restart. "
             "Without any API key everybody who reaches the server is let in; with one, every request needs one.")
    examples = ("blazar keys add ann --rpm 60 --daily-tokens 200000", "blazar keys list", "blazar keys usage --days 7",
                "blazar keys revoke ann")
    subverbs = (Add(), List(), Usage(), Revoke())
