"""`blazar service`: the daemon as a service of systemd."""

from blazar.cli.command import CommandGroup
from blazar.cli.service.install import Install
from blazar.cli.service.logs import Logs
from blazar.cli.service.status import Status


class Service(CommandGroup):
    name = "service"
    help = "Have systemd run the daemon, and look at how that goes"
    about = ("Works with systemd on this machine. As root it is a service of the machine, run by the user blazar; "
             "otherwise one of your own, which runs while you are logged in. BLAZAR_SYSTEMCTL names another "
             "systemctl.")
    examples = ("blazar service install", "blazar service status", "blazar service logs --lines 50",
                "blazar service logs --follow")
    subverbs = (Install(), Status(), Logs())
