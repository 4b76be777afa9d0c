"""`blazar explain`: how the daemon loads a model, and why."""

import argparse

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context


class Explain(Command):
    name = "explain"
    help = "Tell how a model is loaded, and why"
    about = ("Asks the daemon. For a loaded model it shows what that was started with, for any other how it "
             "would be with nothing loaded beside it. `blazar fit` works without a daemon, and for other machines.")
    examples = ("blazar explain qwen3-8b", "blazar explain qwen3-8b --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model", metavar="MODEL", help="the model's name")
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.cli.planning import tell_plan
        told = context.client.post("/api/explain", {"model": args.model})
        code = tell_plan(context.out, told)
        if not args.json:
            context.out.line(f"\n{told['model']} is {'' if told['loaded'] else 'not '}loaded; its engine is "
                             f"{told['engine']}")
            for sentence in told["skipped"]:
                context.out.line(f"note: {sentence}")
            if told["argv"]:
                context.out.line(f"command: {' '.join(told['argv'])}")
        return code
