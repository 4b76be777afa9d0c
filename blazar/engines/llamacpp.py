"""The llama.cpp lane: a real llama-server, or the embedded engine, which takes the same flags."""

from collections.abc import Iterable, Mapping
from typing import Any

from blazar.engines import flags
from blazar.engines.lane import Command, Lane, Launch, engine_environment
from blazar.engines.program import EMBEDDED_FLAVOUR
from blazar.paths import package_home

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
        gate = flags.Gate(launch.manifest, f"the engine {launch.program.tag or launch.program.argv[0]}", launch.model)
        words = [*launch.program.argv, *gate.must("a model file", "--model", str(launch.file)),
                 *gate.may("the model's name", "--alias", launch.model),
                 *gate.must("default_ctx", "--ctx-size", str(ctx * slots)),
                 *gate.must("slots", "--parallel", str(slots)), *gate.may("the model's chat template", "--jinja")]
        if launch.plan is not None and launch.plan.gpu_layers is not None:
            words += gate.may("the plan", "--gpu-layers", str(launch.plan.gpu_layers))
        if launch.secret_file is not None:
            words += gate.must("child_auth", "--api-key-file", str(launch.secret_file))
        words += companion_flags(launch, gate)
        embedding = embedding_flags(launch.facts, ctx, gate)
        words += embedding
        computed = COMPUTED | BATCHES if embedding else COMPUTED
        words += flags.argv(self.kind, self._table, launch.settings, computed, gate)
        env = engine_environment(launch.settings)
        if launch.program.source == EMBEDDED_FLAVOUR:
            env["PYTHONPATH"] = str(package_home())
        return Command(tuple(words), env, ctx=ctx, slots=slots, skipped=tuple(gate.skipped))

    def address_flags(self, host: str, port: int) -> tuple[str, ...]:
        return ("--host", host, "--port", str(port))


def companion_flags(launch: Launch, gate: flags.Gate) -> list[str]:
    """The flags for files beside the model. A draft is for speculative decoding and changes nothing by itself."""
    by_role: dict[str, list[str]] = {}
    for role, path in launch.companions:
        by_role.setdefault(role, []).append(str(path))
    words: list[str] = []
    if by_role.get("projector"):
        words += gate.must("the model's projector", "--mmproj", by_role["projector"][0])
    if by_role.get("adapter"):
        words += gate.must("the model's adapters", "--lora", ",".join(by_role["adapter"]))
    if launch.template is not None:
        words += gate.must("the model's own template", "--chat-template-file", str(launch.template))
    return words


def embedding_flags(facts: Mapping[str, Any], ctx: int, gate: flags.Gate) -> list[str]:
    """What an embedding model needs: a batch as long as its context, and the mean where its file says no pooling."""
    if "embedding" not in facts.get("capabilities", ()):
        return []
    words = gate.must("an embedding model", "--embeddings")
    if ctx:
        words += gate.may("the batch of an embedding model", "--batch-size", str(ctx))
        words += gate.may("the batch of an embedding model", "--ubatch-size", str(ctx))
    return words if facts.get("pooling") else [*words, *gate.must("a model without pooling", "--pooling", "mean")]


def context_per_slot(wanted: int, trained: int) -> int:
    """Tokens a slot gets: what is wanted, never more than the model was trained for; 0 on either side = unknown."""
    return min(wanted, trained) if wanted and trained else wanted or trained
