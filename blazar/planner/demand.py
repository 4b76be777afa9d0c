"""`Demand`: what the settings want of a model's memory, distilled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blazar.planner.speculation import drafted
from blazar.store.shape import Shape

ALL_LAYERS = 1 << 16
BATCH = 512
"""llama.cpp's own number of tokens in one pass."""
PLACING = frozenset({"-ngl", "--gpu-layers", "--n-gpu-layers", "-ts", "--tensor-split", "-sm", "--split-mode", "-dev",
                     "--device", "-ot", "--override-tensor", "-cmoe", "--cpu-moe", "-ncmoe", "--n-cpu-moe", "-ncffn",
                     "--n-cpu-ffn"})
"""Flags by which a person places a model's parts."""
VARIABLES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
             "GGML_VK_VISIBLE_DEVICES")


@dataclass(frozen=True)
class Demand:
    """What is wanted. 0 and "" leave it to the plan."""

    ctx: int = 0
    slots: int = 0
    keys: str = ""
    values: str = ""
    batch: int = BATCH
    unified: bool = True
    swa_full: bool = False
    kv_in_ram: bool = False
    moe_in_ram: int = 0
    """Layers whose experts stay in main memory."""
    dense_in_ram: int = 0
    """Layers whose feed-forward part stays in main memory."""
    projector: int = 0
    """Bytes of the projector, and of adapters, beside the model."""
    draft: Shape | None = None
    drafted: int = 0
    """Tokens that speculation has verified in one pass, for each slot."""
    stretch: float = 1.0
    cache_ram: int = 8192
    """MiB; -1 = no limit."""
    guard: bool = True
    checkpoints: int = 0
    """Of each slot, at most; 0 = as many as the engine likes."""
    rearranged: bool = True
    """Whether weights may be rearranged for the processor, beside the mapped file."""
    placed: tuple[str, ...] = ()
    """The settings by which a person has placed the model: then the plan places nothing."""


def demand_of(settings: Mapping[str, Any], companions: int = 0, draft: Shape | None = None) -> Demand:
    """Out of the effective settings of a model; `companions` are bytes of what is loaded beside it."""
    batch = settings.get("ubatch_size") or BATCH
    unified = settings.get("kv_unified")
    moe = ALL_LAYERS if settings.get("tensor_preset") == "moe-cpu-offload" else settings.get("cpu_moe_n") or 0
    return Demand(
        ctx=settings.get("default_ctx") or 0,
        slots=1 if settings.get("deterministic") else settings.get("slots") or 0,
        keys=settings.get("cache_type_k") or settings.get("cache_type") or "",
        values=settings.get("cache_type_v") or settings.get("cache_type") or "",
        batch=batch, unified=True if unified is None else unified, swa_full=bool(settings.get("swa_full")),
        kv_in_ram=bool(settings.get("no_kv_offload")), moe_in_ram=moe, dense_in_ram=settings.get("cpu_ffn_n") or 0,
        projector=companions, draft=draft, drafted=drafted(settings),
        stretch=max(settings.get("ctx_extend") or 1.0, 1.0),
        cache_ram=settings.get("cache_ram_mb", 8192), guard=settings.get("spawn_mem_guard", True),
        checkpoints=settings.get("ctx_checkpoints") or 0,
        rearranged=settings.get("repack", True) and settings.get("load_mode", "") in ("", "mmap", "mlock"),
        placed=_placed(settings))


def _placed(settings: Mapping[str, Any]) -> tuple[str, ...]:
    found = [name for name in ("tensor_split", "split_mode", "devices", "override_tensor") if settings.get(name)]
    if settings.get("main_gpu", -1) not in (-1, None):
        found.append("main_gpu")
    words: Sequence[str] = settings.get("extra_args") or ()
    if any(word.partition("=")[0] in PLACING for word in words):
        found.append("extra_args")
    if any(name in VARIABLES for name in settings.get("engine_env") or ()):
        found.append("engine_env")
    return tuple(found)
