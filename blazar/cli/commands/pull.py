"""`blazar pull`: install a model on this machine."""

import argparse
from collections.abc import Mapping
from typing import Any

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context


class Pull(Command):
    name = "pull"
    help = "Install a model"
    about = ("Works on this machine's data dir, whether or not a daemon runs; a running one is told at once. "
             "REFERENCE is a name of the catalog, which is listed without REFERENCE; owner/repo of the model registry; "
             "an https:// URL of a GGUF file; or the path of a GGUF file, which is copied into the store. Without "
             ":BUILD the largest build that fits this machine is taken. A pull that is interrupted goes on where it "
             "was when it is asked for again.")
    examples = ("blazar pull", "blazar pull smollm2-135m", "blazar pull qwen3-8b:q4_k_m",
                "blazar pull bartowski/Llama-3.2-1B-Instruct-GGUF", "blazar pull ./qwen3-8b-q4_k_m.gguf",
                "blazar pull ./weights.gguf --name qwen3-8b:q4_k_m")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("reference", metavar="REFERENCE", nargs="?",
                            help="a model's name, owner/repo[:BUILD], an https:// URL, or the path of a GGUF file")
        parser.add_argument("--name", metavar="NAME", help="the name it gets here")
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        if args.reference is None:
            return self._list(context)
        from blazar.cli.pulling import TerminalTeller
        from blazar.hardware.census import census
        from blazar.planner.choice import chooser
        from blazar.store.pull import means_of, pull
        if context.env.get("BLAZAR_HOST"):
            context.out.note(f"pull works on this machine's data dir {context.located.paths.data_dir}, "
                             f"not on BLAZAR_HOST")
        means = means_of(context.config, chooser(census), context.bucket)
        with context.out.progress() as progress:
            model = pull(context.store, args.reference, means, args.name, TerminalTeller(context.out, progress))
        context.tell_daemon("changed", what="store")  # an installed model may have got another name
        if context.out.as_json:
            context.out.json(model)
        elif model["changed"]:
            context.out.line(f"installed {model['name']}{self._use(model)}")
        else:
            context.out.line(f"{model['name']} is installed already")
        return 0

    @staticmethod
    def _use(model: Mapping[str, Any]) -> str:
        """What the new model is good for, to end a sentence with."""
        if model["format"] != "gguf":
            return f"; no engine here reads {model['format']} files yet, so it only waits"
        if "embedding" in model["capabilities"]:
            return "; it embeds texts: `/v1/embeddings` and `/api/embed`"
        if "rerank" in model["capabilities"]:
            return "; it orders documents by a query: `/v1/rerank`"
        return f"; try it with `blazar run {model['name']} \"Hello\"`"

    @staticmethod
    def _list(context: Context) -> int:
        from blazar.store.catalog import entries
        rows = [(entry.name, ", ".join(entry.aliases), entry.about) for entry in entries()]
        context.out.table(("NAME", "ALSO", "WHAT IT IS"), rows)
        return 0
