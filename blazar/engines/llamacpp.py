"""The llama.cpp lane: a real llama-server, or the embedded engine, which takes the same flags."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from blazar.engines import flags, llama_speculation
from blazar.engines.extra_args import appended
from blazar.engines.lane import Command, Lane, Launch, engine_environment
from blazar.engines.program import EMBEDDED_FLAVOUR
from blazar.errors import AdapterPathRefused
from blazar.paths import package_home
from blazar.planner import projector
from blazar.transport import Address

COMPUTED = frozenset({"default_ctx", "slots", "cache_type_k", "cache_type_v"})
"""Settings whose flags `command` writes itself: --ctx-size is for all slots together, so each depends on the other."""
BATCHES = frozenset({"batch_size", "ubatch_size"})
"""Settings that do not apply to embedding models, which read a whole text in one batch."""
AUTO_SLOTS = 1
"""Slots when the setting says 0; how many would fit is for a planner to say."""
SAVE_FLAG = "--slot-save-path"
"""With it llama-server saves and restores slots when it is asked to."""
COUNTS_FLAG = "--metrics"
"""With it llama-server tells its own counts: they stand in /metrics, and say how many drafts were of use."""
MCP_VARIABLE = "LLAMA_ARG_MCP_SERVERS_JSON"
"""Holds the value of --mcp-servers-json: it may hold secrets, and everybody can read an argv."""


class LlamaCpp(Lane):
    """Serves GGUF files over llama-server's HTTP."""

    kind = "llamacpp"

    def __init__(self, table: Iterable[Any] = ()) -> None:
        self._table = tuple(table)

    def accepts(self, facts: Mapping[str, Any]) -> bool:
        return facts.get("format") == "gguf"

    def command(self, launch: Launch) -> Command:
        settings = launch.settings
        slots = 1 if settings.get("deterministic") else settings.get("slots") or AUTO_SLOTS
        stretch = max(settings.get("ctx_extend") or 1, 1)
        trained = launch.facts.get("context_length") or 0
        ctx = context_per_slot(settings.get("default_ctx") or 0, int(trained * stretch))
        gate = flags.Gate(launch.manifest, f"the engine {launch.program.tag or launch.program.argv[0]}", launch.model)
        words = [*gate.must("a model file", "--model", str(launch.file)),
                 *gate.may("the model's name", "--alias", launch.model),
                 *(gate.may("/metrics", COUNTS_FLAG, yields=True) if gate.manifest.has(COUNTS_FLAG) else ()),
                 *gate.must("default_ctx", "--ctx-size", str(ctx * slots)),
                 *gate.must("slots", "--parallel", str(slots)),
                 *gate.may("the model's chat template", "--jinja", yields=True)]
        if launch.plan is not None and launch.plan.gpu_layers is not None:
            words += gate.may("the plan", "--gpu-layers", str(launch.plan.gpu_layers))
        if launch.secret_file is not None:
            words += gate.must("child_auth", "--api-key-file", str(launch.secret_file))
        if launch.sessions is not None:
            words += gate.may("sessions", SAVE_FLAG, f"{launch.sessions}/", yields=True)
        words += [*companion_flags(launch, gate), *template_flags(launch, gate)]
        embedding = embedding_flags(launch.facts, settings, ctx, gate)
        words += embedding or llama_speculation.argv(launch, gate)
        words += [*memory_flags(settings, slots, gate), *stretch_flags(settings, stretch, trained, gate)]
        words += flags.argv(self.kind, self._table, settings, COMPUTED | BATCHES if embedding else COMPUTED, gate)
        words = appended(words, settings.get("extra_args") or (), gate)
        return Command((*launch.program.argv, *words), environment(launch, gate), ctx=ctx, slots=slots,
                       skipped=tuple(gate.skipped), projector=projector.has_flag(words))

    def address_flags(self, address: Address) -> tuple[str, ...]:
        if isinstance(address, str):
            return ("--host", address)
        return ("--host", address[0], "--port", str(address[1]))


def companion_flags(launch: Launch, gate: flags.Gate) -> list[str]:
    """The flags for files beside the model: its projector and its adapters, and those of its overrides."""
    by_role: dict[str, list[str]] = {}
    for role, path in launch.companions:
        by_role.setdefault(role, []).append(str(path))
    words: list[str] = []
    seen_with = projector.chosen(launch.settings, next(iter(by_role.get("projector", [])), None))
    if seen_with and not projector.has_flag(launch.settings.get("extra_args") or ()):
        words += gate.must("the model's projector", "--mmproj", seen_with)
    loras = launch.settings.get("loras") or ()
    for adapter in by_role.get("adapter", []):
        if set(",:\"").intersection(adapter):
            raise AdapterPathRefused(model=launch.model, path=adapter)
    plain = [*by_role.get("adapter", []), *(lora["path"] for lora in loras if lora["scale"] == 1)]
    if plain:
        words += gate.must("the model's adapters", "--lora", ",".join(plain))
    scaled = [f"{lora['path']}:{lora['scale']}" for lora in loras if lora["scale"] != 1]
    if scaled:
        words += gate.must("loras", "--lora-scaled", ",".join(scaled))
    return words


def template_flags(launch: Launch, gate: flags.Gate) -> list[str]:
    """How a prompt is written: the template of the model's overrides, else the one it was given with."""
    settings = launch.settings
    words: list[str] = []
    if settings.get("chat_template"):
        words += gate.must("chat_template", "--chat-template", settings["chat_template"])
    elif settings.get("chat_template_file"):
        words += gate.must("chat_template_file", "--chat-template-file", settings["chat_template_file"])
    elif launch.template is not None:
        words += gate.must("the model's own template", "--chat-template-file", str(launch.template))
    values = json.loads(settings.get("chat_template_kwargs") or "{}")
    if settings.get("reasoning_effort") and "embedding" not in launch.facts.get("capabilities", ()):
        values = {"reasoning_effort": settings["reasoning_effort"], **values}
    if values:
        asked = "chat_template_kwargs" if settings.get("chat_template_kwargs") else "reasoning_effort"
        words += gate.may(asked, "--chat-template-kwargs", json.dumps(values))
    if settings.get("spm_infill"):
        words += gate.may("spm_infill", "--spm-infill")
    return words


def embedding_flags(facts: Mapping[str, Any], settings: Mapping[str, Any], ctx: int, gate: flags.Gate) -> list[str]:
    """What a model needs that reads texts and writes none: a batch as long as its context; the mean where its file says
    no pooling, and the word for it where the model ranks, without which no engine lets it. With late chunking there is
    a vector for each token, and the gateway does the rest."""
    able = facts.get("capabilities", ())
    if "embedding" not in able and "rerank" not in able:
        return []
    words = gate.must("an embedding model", "--embeddings")
    if "rerank" in able:
        words += gate.must("a model that ranks", "--pooling", "rank", yields=True)
    if ctx:
        words += gate.may("the batch of an embedding model", "--batch-size", str(ctx), yields=True)
        words += gate.may("the batch of an embedding model", "--ubatch-size", str(ctx), yields=True)
    if settings.get("late_chunking") and "embedding" in able:
        words += gate.must("late_chunking", "--pooling", "none")
    elif not facts.get("pooling"):
        words += gate.must("a model without pooling", "--pooling", "mean", yields=True)
    return words


def memory_flags(settings: Mapping[str, Any], slots: int, gate: flags.Gate) -> list[str]:
    """The grades of the KV cache, and one pool of it for all slots where there are several."""
    words: list[str] = []
    for which, grade in zip("kv", cache_types(settings), strict=True):
        if grade:
            own = f"cache_type_{which}"
            words += gate.may(own if settings.get(own) else "cache_type", f"--cache-type-{which}", grade)
    if slots > 1 and settings.get("kv_unified") is None:
        words += gate.may("the KV pool of several slots", "--kv-unified", yields=True)
    return words


def cache_types(settings: Mapping[str, Any]) -> tuple[str, str]:
    """Grades of keys and values; empty is for the engine to say. A grade of one side alone counts for the other too."""
    both = settings.get("cache_type") or ""
    keys = settings.get("cache_type_k") or both
    values = settings.get("cache_type_v") or both
    return keys or values, values or keys


def stretch_flags(settings: Mapping[str, Any], stretch: float, trained: int, gate: flags.Gate) -> list[str]:
    """YaRN by the factor `stretch` over the `trained` context; 1 is none."""
    if stretch <= 1:
        return []
    words = [*gate.must("ctx_extend", "--rope-scaling", "yarn"), *gate.must("ctx_extend", "--rope-scale", str(stretch))]
    if trained and not settings.get("yarn_orig_ctx"):
        words += gate.may("ctx_extend", "--yarn-orig-ctx", str(trained))
    return words


def environment(launch: Launch, gate: flags.Gate) -> dict[str, str]:
    """The child's own variables. Those of `engine_env` come first, so that none takes the place of ours."""
    env = {**engine_environment(launch.settings), **(launch.plan.env if launch.plan else {})}
    servers = launch.settings.get("mcp_servers_json")
    if servers and gate.may("mcp_servers_json", "--mcp-servers-json"):
        env[MCP_VARIABLE] = servers
    if launch.program.source == EMBEDDED_FLAVOUR:
        env["PYTHONPATH"] = str(package_home())
    return env


def context_per_slot(wanted: int, trained: int) -> int:
    """Tokens a slot gets: what is wanted, never more than the model was trained for; 0 on either side = unknown."""
    return min(wanted, trained) if wanted and trained else wanted or trained
