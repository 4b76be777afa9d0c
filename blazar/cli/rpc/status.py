"""`blazar rpc status`: the workers, and the memory of their devices."""

import argparse

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context
from blazar.units import format_bytes

COLUMNS = ("WORKER", "STATE", "PROTOCOL", "DEVICE", "FREE", "TOTAL")


class Status(Command):
    name = "status"
    help = "Ask the RPC workers for their protocol version and the memory of each device"
    about = ("Asks each worker itself; no daemon is needed. Without addresses it asks those of rpc_servers, in general "
             "and of single models. The exit code is 1 when one of them is gone. A worker that an engine uses at the "
             "moment is busy: it answers nobody else.")
    examples = ("blazar rpc status", "blazar rpc status 192.168.1.7:50052 --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("workers", metavar="HOST:PORT", nargs="*", help="workers to ask")
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.engines.rpc import Worker, configured, workers_at
        workers = workers_at(args.workers or configured(context.config))
        if not workers:
            context.out.note('no worker is configured; write rpc_servers = "host:port", or name one here')

        def rows(worker: Worker) -> list[tuple[str, ...]]:
            if not worker.devices:
                return [(worker.address, worker.state, worker.version or "", "", "", worker.problem)]
            return [(worker.address, worker.state, worker.version or "", str(number), format_bytes(free),
                     format_bytes(total)) for number, (free, total) in enumerate(worker.devices)]
        context.out.table(COLUMNS, [row for worker in workers for row in rows(worker)],
                          [worker.to_dict() for worker in workers])
        return 1 if any(worker.state == "gone" for worker in workers) else 0
