"""The llama.cpp lane: a real llama-server, or the embedded engine, which takes the same flags."""

from collections.abc import Iterable, Mapping
from typing import Any

from blazar.engines import flags
from blazar.engines.lane import Command, Lane, Launch
from blazar.paths import package_home

EMBEDDED_SOURCE = "embedded"
COMPUTED = frozenset({"default_ctx", "slots"})
"""Settings whose flags `command` writes itself: --ctx-size is for all slots together, so each depends on the other."""
BATCHES = frozenset({"batch_size", "ubatch_size"})
"""Settings that do not apply to embedding models, which read a whole text in one batch."""
AUTO_SLOTS = 1
"""Slots when the setting says 0; how many would fit is for a planner to say."""


class LlamaCpp(Lane):
    """Serves GGUF files over llama-server's HTTP."""

    kind = "llamacpp"

    def __init__(self, table: Iterable[Any] = ()) -> None:
        self._table = tuple(table)

    def accepts(self, facts: Mapping[str, Any]) -> bool:
        return facts.get("format") == "gguf"

    def command(self, launch: Launch) -> Command:
        slots = launch.settings.get("slots") or AUTO_SLOTS
        ctx = context_per_slot(launch.settings.get("default_ctx") or 0, launch.facts.get("context_length") or 0)
        words = [*launch.program.argv, "--model", str(launch.file), "--alias", launch.model,
                 "--ctx-size", str(ctx * slots), "--parallel", str(slots), "--jinja"]
        if launch.secret_file is not None:
            words += ["--api-key-file", str(launch.secret_file)]
        words += companion_flags(launch)
        embedding = embedding_flags(launch.facts, ctx)
        words += embedding
        words += flags.argv(self.kind, self._table, launch.settings, skip=COMPUTED | BATCHES if embedding else COMPUTED)
        env = {str(name): str(value) for name, value in (launch.settings.get("engine_env") or {}).items()}
        if launch.program.source == EMBEDDED_SOURCE:
            env["PYTHONPATH"] = str(package_home())
        return Command(tuple(words), env, ctx=ctx, slots=slots)

    def address_flags(self, host: str, port: int) -> tuple[str, ...]:
        return ("--host", host, "--port", str(port))


def companion_flags(launch: Launch) -> list[str]:
    """The flags for files beside the model. A draft is for speculative decoding and changes nothing by itself."""
    by_role: dict[str, list[str]] = {}
    for role, path in launch.companions:
        by_role.setdefault(role, []).append(str(path))
    words = [word for projector in by_role.get("projector", [])[:1] for word in ("--mmproj", projector)]
    if by_role.get("adapter"):
        words += ["--lora", ",".join(by_role["adapter"])]
    return words + (["--chat-template-file", str(launch.template)] if launch.template else [])


def embedding_flags(facts: Mapping[str, Any], ctx: int) -> list[str]:
    """What an embedding model needs: a batch as long as its context, and the mean where its file says no pooling."""
    if "embedding" not in facts.get("capabilities", ()):
        return []
    batch = ["--batch-size", str(ctx), "--ubatch-size", str(ctx)] if ctx else []
    return ["--embeddings", *batch, *([] if facts.get("pooling") else ["--pooling", "mean"])]


def context_per_slot(wanted: int, trained: int) -> int:
    """Tokens a slot gets: what is wanted, never more than the model was trained for; 0 on either side = unknown."""
    return min(wanted, trained) if wanted and trained else wanted or trained
