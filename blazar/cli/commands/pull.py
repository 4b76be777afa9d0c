"""`blazar pull`: install a model on this machine."""

import argparse

from blazar.cli.command import Command
from blazar.cli.context import Context


class Pull(Command):
    name = "pull"
    help = "Install a model"
    about = ("Works on this machine's data dir, whether or not a daemon runs; a running one is told at once. "
             "REFERENCE is the name of a model that Blazar knows how to get, or the path of a GGUF file, which is "
             "copied into the store.")
    examples = ("blazar pull smollm2-135m", "blazar pull ./qwen3-8b-q4_k_m.gguf",
                "blazar pull ./weights.gguf --name qwen3-8b:q4_k_m")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("reference", metavar="REFERENCE", help="a model's name, or the path of a GGUF file")
        parser.add_argument("--name", metavar="NAME", help="the name it gets here")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.store.pull import pull
        if context.env.get("BLAZAR_HOST"):
            context.out.note(f"pull works on this machine's data dir {context.located.paths.data_dir}, "
                             f"not on BLAZAR_HOST")
        with context.out.progress() as progress:
            model = pull(context.store, args.reference, name=args.name, progress=progress)
        if not model["changed"]:
            context.out.line(f"{model['name']} is installed already")
            return 0
        context.tell_daemon("changed", what="store")
        context.out.line(f"installed {model['name']}; try it with `blazar run {model['name']} \"Hello\"`")
        return 0
