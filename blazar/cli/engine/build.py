"""`blazar engine build`: compile the engine on this machine."""

import argparse

from blazar.cli.command import Command
from blazar.cli.context import Context


class Build(Command):
    name = "build"
    help = "Build the engine on this machine"
    about = ("Compiles llama.cpp for this machine's processor, or for its NVIDIA GPUs, and takes the build into use "
             "once its server has answered. The source is the newest tag of llama.cpp's git repository, or "
             "what --source, --from and --tag say. Needs cmake, a C++ compiler, ninja or make, git unless --source is "
             "given, and nvcc for cuda. Takes many minutes.")
    examples = ("blazar engine build cpu", "blazar engine build cuda --tag b11434",
                "blazar engine build cpu --source ~/llama.cpp --dry-run")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("flavour", choices=("cpu", "cuda"), help="what the engine shall compute with")
        parser.add_argument("--tag", metavar="bNNNN", help="which build of llama.cpp (otherwise the newest)")
        parser.add_argument("--source", metavar="PLACE", help="a source tree, or an archive of one, on this machine")
        parser.add_argument("--from", dest="url", metavar="URL", help="another git repository with tags bNNNN")
        parser.add_argument("--lane", metavar="NAME", help="make it a lane of its own for the architectures --serves")
        parser.add_argument("--serves", metavar="ARCHITECTURE", action="append", default=[],
                            help="with --lane: an architecture that it serves, as GGUF files name it")
        parser.add_argument("--arch", metavar="NN", action="append", default=[],
                            help="compute capability of the GPU, without its dot (otherwise as nvidia-smi says)")
        parser.add_argument("--jobs", metavar="N", type=int, help="compilers at the same time")
        parser.add_argument("--no-use", action="store_true", help="install it without taking it into use")
        parser.add_argument("--again", action="store_true", help="build a tag that is installed already")
        parser.add_argument("--dry-run", action="store_true", help="show the plan and stop")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from pathlib import Path

        from blazar.engines.install import build, sources, toolchain
        from blazar.engines.install.retention import pins
        from blazar.engines.install.shelf import Shelf
        env = context.env
        tools = toolchain.find(args.flavour, args.arch, env)
        source = (sources.local(Path(args.source), args.tag, env) if args.source
                  else sources.remote(args.url or sources.default_url(env), args.tag, env))
        plan = build.Plan(args.flavour, source, tools, max(1, args.jobs or sources.available_jobs()),
                          lane=args.lane, serves=tuple(args.serves))
        for line in plan.lines():
            context.out.line(line)
        if args.dry_run:
            context.out.line("nothing was changed")
            return 0
        with context.out.steps() as steps:
            made, gone = build.build(Shelf(context.located.paths), plan, not args.no_use, args.again,
                                     context.config.keep_tags, pins(context.config), steps, env)
        context.tell_daemon("changed", what="engines")
        state = ("it serves " + ", ".join(args.serves) if args.lane else "it is in use now" if made.active else
                 f"`blazar engine use {made.tag}` takes it into use")
        context.out.line(f"installed {made.tag}; {state}")
        for tag in gone:
            context.out.line(f"removed {tag}, which was beyond keep_tags")
        return 0
