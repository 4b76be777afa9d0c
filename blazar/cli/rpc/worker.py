"""`blazar rpc worker`: become a worker, by way of the ggml-rpc-server of an engine build."""

import argparse
import os

from blazar.cli.command import Command
from blazar.cli.context import Context

TOOL = "ggml-rpc-server"
PORT = 50052


class Worker(Command):
    name = "worker"
    help = "Lend this machine's devices to models that another machine serves"
    about = ("Runs the ggml-rpc-server of an installed engine build until it is ended. It listens on the loopback "
             "address unless another is given, since whoever reaches a worker can use it, and make it fail: the "
             "protocol has no passwords.")
    examples = ("blazar rpc worker --host 192.168.1.7", "blazar rpc worker --port 50060 --device CUDA1")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on")
        parser.add_argument("--port", type=int, default=PORT, help=f"port to listen on (otherwise {PORT})")
        parser.add_argument("--device", metavar="NAMES", help="devices to lend, separated by commas (otherwise all)")
        parser.add_argument("--threads", type=int, metavar="N", help="threads of the CPU, where that is lent")
        parser.add_argument("--cache", action="store_true", help="keep the weights it is sent in a local cache")
        parser.add_argument("--build", metavar="TAG", help="the engine build whose ggml-rpc-server it is")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.config.exposure_rules import is_loopback
        from blazar.engines.builds import Builds
        from blazar.engines.tools import find_tool
        builds = Builds(context.located.paths)
        if args.build:
            builds.find(args.build)
        tool = find_tool(TOOL, builds.every("llamacpp"), context.env.get("BLAZAR_ENGINE_PATH"), args.build, context.env)
        if not is_loopback(args.host):
            context.out.note(f"whoever reaches {args.host}:{args.port} can use this worker, without a password")
        words = [str(tool.path), "--host", args.host, "--port", str(args.port)]
        words += ["--device", args.device] if args.device else []
        words += ["--threads", str(args.threads)] if args.threads else []
        words += ["--cache"] if args.cache else []
        os.execve(tool.path, words, dict(context.env))
