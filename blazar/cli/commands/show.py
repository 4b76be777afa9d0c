"""`blazar show`: what is known of one model."""

import argparse
from typing import Any

from blazar.cli.command import Command, add_json
from blazar.cli.context import Context


class Show(Command):
    name = "show"
    help = "Show what is known of a model"
    about = ("Asks the daemon; without one it reads this machine's store and says so. With BLAZAR_HOST set it only "
             "ever asks that daemon.")
    examples = ("blazar show smollm2-135m", "blazar show smollm2-135m --template", "blazar show smollm2-135m --json")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("model", metavar="MODEL", help="the model's name")
        parts = parser.add_mutually_exclusive_group()
        parts.add_argument("--template", action="store_true", help="print only the chat template")
        parts.add_argument("--license", action="store_true", help="print only the license")
        parts.add_argument("--modelfile", action="store_true", help="print a Modelfile that makes this model")
        parts.add_argument("--parameters", action="store_true", help="print only the options given with it")
        parts.add_argument("--system", action="store_true", help="print only its system text")
        add_json(parser)

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.proxy.dialects.ollama_listing import show
        if context.ask_daemon():
            facts = context.client.post("/api/show", {"model": args.model})
        else:
            facts = show({"model": context.store.describe(args.model)})
        for part in ("template", "license", "modelfile", "parameters", "system"):
            if getattr(args, part):
                context.out.line((facts.get(part) or "").removesuffix("\n"))
                return 0
        context.out.table(("FACT", "VALUE"), _rows(facts), facts)
        return 0


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    details, file_facts = facts["details"], facts.get("model_info") or {}
    architecture = str(file_facts.get("general.architecture", details["family"]))
    rows = {
        "architecture": architecture,
        "parameters": details["parameter_size"],
        "quantization": details["quantization_level"],
        "context length": file_facts.get(f"{architecture}.context_length"),
        "embedding length": file_facts.get(f"{architecture}.embedding_length"),
        "layers": file_facts.get(f"{architecture}.block_count"),
        "capabilities": ", ".join(facts.get("capabilities") or ()),
        "aliases": ", ".join(facts.get("aliases") or ()),
        "system": (facts.get("system") or "").strip().partition("\n")[0],
        "license": (facts.get("license") or "").strip().partition("\n")[0],
        "modified": facts.get("modified_at"),
    }
    return [(fact, str(value)) for fact, value in rows.items() if value not in (None, "")]
