"""THE route table: what is served where, in which dialect, through which stages. The docs read it too."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from blazar.proxy.pipeline import ASKING, COUNTING, GENERATION, UNLOADING


@dataclass(frozen=True)
class Route:
    """One method of one path. A GET route answers HEAD too, and every path answers OPTIONS."""

    method: str
    path: str
    resource: str
    """`module.function` under proxy/resources/."""
    dialect: str
    operation: str = ""
    stages: frozenset[str] = frozenset()
    open: bool = False
    """Answers without an API key even when keys are configured."""

    @cached_property
    def is_shared(self) -> bool:
        """Whether Anthropic's clients take its path for something of Anthropic's own."""
        return self.path.startswith("/v1/files")


ROUTES = (
    Route("GET", "/", "status.root", "ollama"),
    Route("GET", "/healthz", "status.healthz", "openai", open=True),
    Route("GET", "/openapi.json", "status.openapi", "openai", open=True),
    Route("GET", "/metrics", "metrics.metrics", "openai"),
    # OpenAI
    Route("POST", "/v1/chat/completions", "completions.create", "openai", "chat", GENERATION),
    Route("GET", "/v1/chat/completions", "completions.listed", "openai"),
    Route("GET", "/v1/chat/completions/{id}", "completions.retrieve", "openai"),
    Route("POST", "/v1/chat/completions/{id}", "completions.update", "openai"),
    Route("DELETE", "/v1/chat/completions/{id}", "completions.delete", "openai"),
    Route("GET", "/v1/chat/completions/{id}/messages", "completions.messages", "openai"),
    Route("POST", "/v1/completions", "generation.generate", "openai", "completions", GENERATION),
    Route("POST", "/v1/embeddings", "embeddings.embed", "openai", "embeddings", ASKING),
    Route("POST", "/v1/rerank", "rerank.order", "openai", "rerank", ASKING),
    Route("POST", "/rerank", "rerank.order", "openai", "rerank", ASKING),
    Route("POST", "/v1/moderations", "moderations.refuse", "openai"),
    Route("GET", "/v1/models", "models.openai_list", "openai"),
    Route("GET", "/v1/models/{name}", "models.openai_model", "openai"),
    Route("GET", "/v1/models/{name}/{more}", "models.openai_model", "openai"),  # a name may hold two slashes
    Route("GET", "/v1/models/{name}/{more}/{most}", "models.openai_model", "openai"),
    Route("POST", "/v1/responses", "responses.create", "responses", "create", GENERATION),
    Route("POST", "/v1/responses/input_tokens", "responses.count", "responses", "input_tokens", COUNTING),
    Route("POST", "/v1/responses/compact", "refusals.compact", "responses"),
    Route("GET", "/v1/responses/{id}", "responses.retrieve", "responses"),
    Route("DELETE", "/v1/responses/{id}", "responses.delete", "responses"),
    Route("GET", "/v1/responses/{id}/input_items", "responses.items", "responses"),
    Route("POST", "/v1/responses/{id}/cancel", "responses.cancel", "responses"),
    Route("POST", "/v1/files", "files.upload", "openai"),
    Route("GET", "/v1/files", "files.listed", "openai"),
    Route("GET", "/v1/files/{id}", "files.retrieve", "openai"),
    Route("DELETE", "/v1/files/{id}", "files.delete", "openai"),
    Route("GET", "/v1/files/{id}/content", "files.content", "openai"),
    Route("POST", "/v1/batches", "batches.create", "openai"),
    Route("GET", "/v1/batches", "batches.listed", "openai"),
    Route("GET", "/v1/batches/{id}", "batches.retrieve", "openai"),
    Route("POST", "/v1/batches/{id}/cancel", "batches.cancel", "openai"),
    # llama-server
    Route("POST", "/tokenize", "engine.ask", "openai", "tokenize", COUNTING),
    Route("POST", "/detokenize", "engine.ask", "openai", "detokenize", COUNTING),
    Route("POST", "/infill", "generation.generate", "openai", "infill", GENERATION),
    Route("GET", "/slots", "engine.look", "openai", "slots", UNLOADING),
    Route("GET", "/props", "engine.look", "openai", "props", UNLOADING),
    # Anthropic
    Route("POST", "/v1/messages", "generation.generate", "anthropic", "messages", GENERATION),
    Route("POST", "/v1/messages/count_tokens", "tokens.count", "anthropic", "count_tokens", COUNTING),
    Route("POST", "/v1/messages/batches", "message_batches.create", "anthropic"),
    Route("GET", "/v1/messages/batches", "message_batches.listed", "anthropic"),
    Route("GET", "/v1/messages/batches/{id}", "message_batches.retrieve", "anthropic"),
    Route("DELETE", "/v1/messages/batches/{id}", "message_batches.delete", "anthropic"),
    Route("GET", "/v1/messages/batches/{id}/results", "message_batches.results", "anthropic"),
    Route("POST", "/v1/messages/batches/{id}/cancel", "message_batches.cancel", "anthropic"),
    # Ollama
    Route("POST", "/api/chat", "generation.generate", "ollama", "chat", GENERATION),
    Route("POST", "/api/generate", "generation.generate", "ollama", "generate", GENERATION),
    Route("POST", "/api/embed", "embeddings.embed", "ollama", "embed", ASKING),
    Route("POST", "/api/embeddings", "embeddings.embed", "ollama", "embeddings", ASKING),
    Route("GET", "/api/version", "status.version", "ollama"),
    Route("GET", "/api/tags", "models.tags", "ollama"),
    Route("GET", "/api/ps", "models.ps", "ollama"),
    Route("POST", "/api/show", "models.show", "ollama"),
    Route("GET", "/api/requests", "requests.listed", "ollama"),
    Route("DELETE", "/api/requests/{id}", "requests.cancel", "ollama"),
    Route("GET", "/api/events", "events.events", "ollama"),
    Route("POST", "/api/reload", "reload.reload", "ollama"),
    Route("POST", "/api/explain", "models.explain", "ollama"),
    Route("POST", "/api/pull", "pulls.pull", "ollama"),
    Route("DELETE", "/api/delete", "models.delete", "ollama"),
    Route("POST", "/api/create", "creation.create", "ollama"),
    Route("POST", "/api/copy", "creation.copy", "ollama"),
    Route("POST", "/api/push", "creation.push", "ollama"),
    Route("POST", "/v1/systemone", "refusals.systemone", "ollama"),
    Route("HEAD", "/api/blobs/{digest}", "blobs.look", "ollama"),
    Route("POST", "/api/blobs/{digest}", "blobs.take", "ollama"),
)

PREFIXES = (("/v1/messages", "anthropic"), ("/v1", "openai"), ("/api", "ollama"))
"""The dialect in which an unknown path is refused; the first that fits."""


def methods(path: str) -> dict[str, Route]:
    """The routes of one path of the table by method, HEAD and OPTIONS included."""
    found = {route.method: route for route in ROUTES if route.path == path}
    if not found:
        return {}
    head = {"HEAD": found["GET"]} if "GET" in found else {}
    return {**found, **head, "OPTIONS": Route("OPTIONS", path, "status.options", dialect_of(path), open=True)}


def allowed(path: str) -> str:
    """The methods of one path of the table, as `Allow` lists them."""
    return ", ".join(sorted(methods(path)))


def dialect_of(path: str) -> str:
    """The dialect in which errors about `path` are written; OpenAI's where nothing else fits."""
    for prefix, dialect in PREFIXES:
        if path == prefix or path.startswith(prefix + "/"):
            return dialect
    return "openai"


def resource_of(route: Route) -> Callable[[Any, Any, Route], None]:
    """The function that serves a route: it gets the Gateway, the Request and the route."""
    module, _, function = route.resource.partition(".")
    return getattr(importlib.import_module(f"blazar.proxy.resources.{module}"), function)


def spoken(dialect: str, headers: Mapping[str, str]) -> str:
    """The dialect of a request for a path that OpenAI and Anthropic share: Anthropic's clients tell their version."""
    return "anthropic" if dialect == "openai" and "anthropic-version" in headers else dialect


def foreign(route: Route, headers: Mapping[str, str]) -> bool:
    """Whether this is a request of Anthropic's clients for what they take for something of Anthropic's own."""
    return route.is_shared and spoken(route.dialect, headers) != route.dialect
