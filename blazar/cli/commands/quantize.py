"""`blazar quantize`: make a smaller build of an installed model."""

import argparse

from blazar.cli.command import Command
from blazar.cli.context import Context


class Quantize(Command):
    name = "quantize"
    help = "Make a smaller build of an installed model"
    about = ("Works on this machine's data dir, whether or not a daemon runs; a running one is told. It runs the "
             "llama-quantize of an installed engine build; `blazar engine build cpu` makes a build that has it. The "
             "model it starts from stays.")
    examples = ("blazar quantize qwen3-8b:f16 q4_k_m", "blazar quantize qwen3-8b:bf16 iq4_xs --imatrix calib.gguf",
                "blazar quantize solo:f16 q8_0 --name solo:small")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model", metavar="MODEL", help="an installed model, best its f16 or bf16 build")
        parser.add_argument("type", metavar="TYPE", help="the quantisation, such as q4_k_m or q8_0")
        parser.add_argument("--name", metavar="NAME", help="the name it gets (otherwise the model's own, with TYPE)")
        parser.add_argument("--again", action="store_true", help="allow a model that is quantised already")
        parser.add_argument("--imatrix", metavar="FILE", help="importance matrix that guides the quantisation")
        parser.add_argument("--build", metavar="TAG", help="the engine build whose llama-quantize does it")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from pathlib import Path

        from blazar.engines.builds import Builds
        from blazar.engines.quantize import TOOL, quantize
        from blazar.engines.tools import find_tool
        builds = Builds(context.located.paths)
        if args.build:
            builds.find(args.build)
        tool = find_tool(TOOL, builds.every("llamacpp"), context.env.get("BLAZAR_ENGINE_PATH"), args.build, context.env)
        source = context.store.get(args.model)
        imatrix = Path(args.imatrix).expanduser() if args.imatrix else None
        with context.out.steps() as steps:
            model = quantize(context.store, tool, source, args.type, args.name, args.again, imatrix, steps, context.env)
        if not model["changed"]:
            context.out.line(f"{model['name']} is installed already")
            return 0
        context.tell_daemon("changed", what="store")
        from blazar.units import format_bytes
        context.out.line(f"installed {model['name']}, {format_bytes(model['size'])} instead of "
                         f"{format_bytes(source.size)}; try it with `blazar run {model['name']} \"Hello\"`")
        return 0
