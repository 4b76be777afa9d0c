"""Tokens as an exchange's child counts them, without generating anything."""

import contextlib
from collections.abc import Callable
from typing import Any

from blazar.errors import ChildFailed, PromptTooLong
from blazar.proxy.exchange import Exchange
from blazar.proxy.json import dumps, loads
from blazar.proxy.structured import constrain

Fetch = Callable[[Exchange, str, dict[str, Any]], dict[str, Any]]
"""Asks the child of an exchange for one JSON object: `Dispatch.fetch`."""
MOST_PROMPTS = 64
"""Prompts of one request that are counted."""
COUNTED = "/v1/chat/completions/input_tokens"
"""Where an engine counts a chat completion's prompt with all that it is shown; older ones do not."""


MEDIA = (b'"image_url"', b'"input_audio"', b'"video_url"')
"""What a prompt can hold besides text; only the engine knows how many tokens it makes of it."""


def asked_tokens(fetch: Fetch, exchange: Exchange) -> int | None:
    """Tokens of the prompt that the child is about to be sent, of the longest if there are several; None when that
    cannot be told beforehand."""
    if any(mark in exchange.upstream_body for mark in MEDIA):
        return None
    if exchange.upstream_path.endswith("/chat/completions"):
        return prompt_tokens(fetch, exchange)
    prompt = loads(exchange.upstream_body).get("prompt")
    prompts = prompt if isinstance(prompt, list) and not _is_tokens(prompt) else [prompt]
    counts = [len(tokenize(fetch, exchange, each)) if isinstance(each, str) else len(each)
              for each in prompts[:MOST_PROMPTS] if isinstance(each, str) or _is_tokens(each)]
    return max(counts, default=None)


def _is_tokens(prompt: Any) -> bool:
    return isinstance(prompt, list) and all(isinstance(token, int) for token in prompt)


def too_long(exchange: Exchange, tokens: int, limit: int) -> PromptTooLong:
    """The refusal of a prompt of so many tokens, where `limit` can be read."""
    trained = exchange.context_length
    if trained and tokens > trained:
        lever = f"choose a model that reads more: this one was made for {trained}"
    else:
        lever = (f'raise `ctx` in [model_overrides."{exchange.model}"] (`blazar fit {exchange.model} --ctx {tokens}` '
                 "says whether that fits here)")
    return PromptTooLong(tokens=tokens, limit=limit, model=exchange.model, lever=lever)


def input_tokens(fetch: Fetch, exchange: Exchange) -> int:
    """Tokens of the prompt that a request for an answer would make. By an engine that does not count pictures they are
    left out of it."""
    _, asked = constrain(loads(exchange.upstream_body), chat=True)
    if exchange.shown:
        with contextlib.suppress(ChildFailed):
            tokens = fetch(exchange, COUNTED, asked).get("input_tokens")
            if isinstance(tokens, int):
                return tokens
    exchange.upstream_body = dumps(asked)
    return prompt_tokens(fetch, exchange)


def prompt_tokens(fetch: Fetch, exchange: Exchange) -> int:
    """Tokens of the prompt that the chat completion in `exchange.upstream_body` would make."""
    return len(tokenize(fetch, exchange, prompt_text(fetch, exchange)))


def prompt_text(fetch: Fetch, exchange: Exchange) -> str:
    """That prompt, as the model's template makes it."""
    prompt = fetch(exchange, "/apply-template", loads(exchange.upstream_body)).get("prompt")
    if not isinstance(prompt, str):
        raise ChildFailed(model=exchange.model, reason="it did not show the prompt that its template makes")
    return prompt


def tokenize(fetch: Fetch, exchange: Exchange, text: str, add_special: bool = True) -> list[int]:
    """The tokens of `text`, with those that the engine puts around every text unless `add_special` is false."""
    answer = fetch(exchange, "/tokenize", {"content": text, "add_special": add_special, "parse_special": True})
    tokens = answer.get("tokens")
    if not isinstance(tokens, list):
        raise ChildFailed(model=exchange.model, reason="it did not say which tokens a text has")
    return tokens
