"""`blazar rpc`: workers that hold a part of a model on other machines. Its sub-verbs stand in `cli/rpc/`."""

import argparse

from blazar.cli.command import Command, add_parser
from blazar.cli.context import Context
from blazar.cli.rpc.status import Status
from blazar.cli.rpc.worker import Worker

SUBVERBS: tuple[Command, ...] = (Worker(), Status())


class Rpc(Command):
    name = "rpc"
    help = "Lend this machine's devices to another one's models, and look at those who do"
    about = ("A worker takes a part of the weights and of the KV cache of models that other machines serve; they name "
             "it in rpc_servers. Workers know no passwords: use them in networks that you trust.")
    examples = ("blazar rpc worker --host 192.168.1.7", "blazar rpc status")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True, dest="action")
        for verb in SUBVERBS:
            add_parser(actions, verb).set_defaults(subverb=verb)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        subverb: Command = args.subverb
        return subverb.run(args, context)
