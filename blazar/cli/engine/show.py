"""`blazar engine show`: what is known of one build, and the flags it has by its own account."""

import argparse
from collections.abc import Mapping
from typing import Any

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context

FACTS = ("tag", "kind", "flavour", "version", "active", "pinned", "path", "source", "sha256", "installed_at", "flags")


class Show(Command):
    name = "show"
    help = "Show what is known of an engine build"
    about = ("Works on this machine's data dir. The version and the flags are what the build itself prints for "
             "`--version` and `--help`; they are kept until it changes.")
    examples = ("blazar engine show b11434", "blazar engine show embedded --flags", "blazar engine show b11434 --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("tag", metavar="TAG", help="the build's tag, as `blazar engine list` shows it")
        parser.add_argument("--flags", action="store_true", help="list its flags with their values")
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from dataclasses import asdict

        from blazar.cli.engine.found import find
        from blazar.engines.lane import engine_environment
        from blazar.engines.manifest import manifest_of
        entry = find(context, args.tag)
        manifest = manifest_of(entry.program, context.located.paths.manifests, context.env,
                               engine_environment({"engine_env": context.config.engine_env}))
        flags = manifest.distinct()
        facts = {**entry.facts, "version": manifest.version, "problem": manifest.problem or None}
        if args.json:
            context.out.json({**facts, "flags": [asdict(flag) for flag in flags]})
        elif args.flags:
            context.out.table(("FLAG", "VALUE"),
                              [(", ".join(flag.names), ", ".join(flag.choices) or flag.value or "") for flag in flags])
        else:
            context.out.table(("FACT", "VALUE"), _rows({**facts, "flags": manifest.problem or len(flags)}))
        return 0


def _rows(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    shown = {True: "yes", False: "no"}
    return [(name.replace("_", " "), shown.get(facts[name], "") if isinstance(facts[name], bool) else str(facts[name]))
            for name in FACTS if facts.get(name) not in (None, "")]
