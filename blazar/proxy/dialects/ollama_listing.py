"""Ollama's answers about models: what is installed (`tags`), one of them (`show`), what is loaded (`ps`)."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from blazar.proxy.dialects.times import CENTURY, rfc3339

LIKE = "0.33.0"
"""The release of Ollama whose API this is."""


def version() -> dict[str, Any]:
    """GET /api/version: not our own number, since clients turn away servers below the release that they need."""
    return {"version": LIKE}


def tags(models: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """GET /api/tags; `models` are the snapshot's models by the name to show."""
    return {"models": [{**_heading(name, entry), "size": entry["size"], "modified_at": entry["modified_at"],
                        "capabilities": list(entry["capabilities"])}
                       for name, entry in models.items()]}


def show(described: Mapping[str, Any]) -> dict[str, Any]:
    """POST /api/show; `described` has the supervisor's answer to `describe` as `model`, and an `endpoint` if the model
    is loaded: then `context_length` is what one request can have."""
    model, endpoint = described["model"], described.get("endpoint")
    return {"license": model.get("license") or "", "parameters": model.get("parameters") or "",
            "template": model.get("template") or "", "system": model.get("system") or "",
            "messages": model.get("messages") or [], "aliases": model.get("aliases") or [],
            "modelfile": model.get("modelfile") or "",
            "details": _details(model), "model_info": _facts(model), "capabilities": list(model["capabilities"]),
            "modified_at": model["modified_at"], **({"context_length": endpoint.ctx} if endpoint else {})}


def ps(rows: Iterable[Mapping[str, Any]], now: Callable[[], float] = time.time) -> dict[str, Any]:
    """GET /api/ps; a row has `endpoint`, `model` (its snapshot entry) and `expires_at` (epoch, or None: never).

    A model that never expires is said to do so a hundred years from now.
    """
    latest = now() + CENTURY
    loaded = []
    for row in rows:
        endpoint, expires_at = row["endpoint"], row["expires_at"]
        until = latest if expires_at is None else min(expires_at, latest)
        loaded.append({**_heading(endpoint.model, row["model"]), "size": endpoint.size or row["model"]["size"],
                       "size_vram": endpoint.size_vram, "context_length": endpoint.ctx,
                       "expires_at": rfc3339(until)})
    return {"models": loaded}


def _heading(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "model": name, "digest": entry["digest"], "details": _details(entry)}


def _details(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Clients decide on these: what the file does not tell is `unknown`, never empty."""
    family = entry.get("family") or entry.get("architecture") or "unknown"
    lengths = {key: entry[key] for key in ("context_length", "embedding_length") if entry.get(key)}
    return {"parent_model": entry.get("parent") or "", "format": entry.get("format") or "gguf", "family": family,
            "families": [family], "parameter_size": entry.get("parameter_size") or "unknown",
            "quantization_level": entry.get("quantization") or "unknown", **lengths}


def _facts(model: Mapping[str, Any]) -> dict[str, Any]:
    """The file's own keys, and those that clients look for whether or not the file has them."""
    architecture = model.get("architecture") or "unknown"
    wanted = {"general.architecture": architecture, "general.parameter_count": model.get("parameter_count"),
              f"{architecture}.context_length": model.get("context_length"),
              f"{architecture}.embedding_length": model.get("embedding_length")}
    return {**(model.get("model_info") or {}), **{key: value for key, value in wanted.items() if value}}
