"""`blazar pull`: install a model on this machine."""

import argparse

from blazar.cli.command import Command
from blazar.cli.context import Context


class Pull(Command):
    name = "pull"
    help = "Install a model"
    about = ("Works on this machine's data dir, whether or not a daemon runs; a running one is told at once. "
             "REFERENCE is a name of the catalog, owner/repo of the model registry, an https:// URL of a GGUF file, or "
             "the path of a GGUF file, which is copied into the store. Without :BUILD the largest one that fits this "
             "machine is taken. A pull that is interrupted goes on where it was when it is asked for again.")
    examples = ("blazar pull smollm2-135m", "blazar pull qwen3-8b:q4_k_m",
                "blazar pull bartowski/Llama-3.2-1B-Instruct-GGUF", "blazar pull ./qwen3-8b-q4_k_m.gguf",
                "blazar pull ./weights.gguf --name qwen3-8b:q4_k_m")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("reference", metavar="REFERENCE",
                            help="a model's name, owner/repo[:BUILD], an https:// URL, or the path of a GGUF file")
        parser.add_argument("--name", metavar="NAME", help="the name it gets here")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.cli.pulling import TerminalTeller
        from blazar.hardware.census import census
        from blazar.planner.choice import chooser
        from blazar.store.pull import means_of, pull
        if context.env.get("BLAZAR_HOST"):
            context.out.note(f"pull works on this machine's data dir {context.located.paths.data_dir}, "
                             f"not on BLAZAR_HOST")
        means = means_of(context.config, chooser(census))
        with context.out.progress() as progress:
            model = pull(context.store, args.reference, means, args.name, TerminalTeller(context.out, progress))
        if not model["changed"]:
            context.out.line(f"{model['name']} is installed already")
            return 0
        context.tell_daemon("changed", what="store")
        context.out.line(f"installed {model['name']}; try it with `blazar run {model['name']} \"Hello\"`")
        return 0
