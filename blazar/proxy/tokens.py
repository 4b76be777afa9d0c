"""Tokens as an exchange's child counts them, without generating anything."""

from collections.abc import Callable
from typing import Any

from blazar.errors import ChildFailed
from blazar.proxy.exchange import Exchange
from blazar.proxy.json import loads

Fetch = Callable[[Exchange, str, dict[str, Any]], dict[str, Any]]
"""Asks the child of an exchange for one JSON object: `Dispatch.fetch`."""


def prompt_tokens(fetch: Fetch, exchange: Exchange) -> int:
    """Tokens of the prompt that the chat completion in `exchange.upstream_body` would make."""
    prompt = fetch(exchange, "/apply-template", loads(exchange.upstream_body)).get("prompt")
    if not isinstance(prompt, str):
        raise ChildFailed(model=exchange.model, reason="it did not show the prompt that its template makes")
    return len(tokenize(fetch, exchange, prompt))


def tokenize(fetch: Fetch, exchange: Exchange, text: str, add_special: bool = True) -> list[int]:
    """The tokens of `text`, with those that the engine puts around every text unless `add_special` is false."""
    answer = fetch(exchange, "/tokenize", {"content": text, "add_special": add_special, "parse_special": True})
    tokens = answer.get("tokens")
    if not isinstance(tokens, list):
        raise ChildFailed(model=exchange.model, reason="it did not say which tokens a text has")
    return tokens
