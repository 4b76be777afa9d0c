"""`blazar rpc`: workers that hold a part of a model on other machines. Its sub-verbs stand in `cli/rpc/`."""

from blazar.cli.command import CommandGroup
from blazar.cli.rpc.status import Status
from blazar.cli.rpc.worker import Worker


class Rpc(CommandGroup):
    name = "rpc"
    help = "Lend this machine's devices to another one's models, and look at those who do"
    about = ("A worker takes a part of the weights and of the KV cache of models that other machines serve; they name "
             "it in rpc_servers. Workers know no passwords: use them in networks that you trust.")
    examples = ("blazar rpc worker --host 192.168.1.7", "blazar rpc status")
    subverbs = (Worker(), Status())
