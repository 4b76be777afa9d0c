"""`context` of Ollama's /api/generate: the tokens of a conversation, which the client sends back to go on with it.

An answer's context are the tokens of its prompt, as the model's template makes it, and of its text. A request that
brings one is sent to the child as a plain completion of these tokens and of its own prompt.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from blazar.errors import ChildFailed, ChildRefused, ChildSilent
from blazar.proxy.dialects.ollama_generate import CHAT, COMPLETIONS, completion_of
from blazar.proxy.exchange import Exchange, Reply, Retryable
from blazar.proxy.json import dumps, loads
from blazar.proxy.pipeline import Forward
from blazar.proxy.tokens import MEDIA, Fetch, prompt_text, tokenize


@dataclass(frozen=True)
class GoingOn:
    """The last step of an attempt at /api/generate, around the one that sends it."""

    fetch: Fetch
    send: Forward

    def __call__(self, exchange: Exchange) -> Reply:
        asked = exchange.upstream_path, exchange.upstream_body
        if asked[0] != CHAT or any(mark in asked[1] for mark in MEDIA):
            return self.send(exchange)
        before = exchange.context
        try:
            if before:
                turn = prompt_text(self.fetch, exchange)
                before = [*before, *tokenize(self.fetch, exchange, turn, add_special=False)]
                exchange.upstream_body = dumps(completion_of(loads(asked[1]), before))
                exchange.upstream_path = COMPLETIONS
            exchange.tokens_with = lambda text: self._tokens(exchange, asked[1], before, text)
            return self.send(exchange)
        finally:
            exchange.upstream_path, exchange.upstream_body = asked  # another attempt begins with them

    def _tokens(self, exchange: Exchange, chat: bytes, before: Sequence[int], text: str) -> list[int] | None:
        """The tokens after the answer `text`; None when the child does not tell them: the answer counts more."""
        sent = exchange.upstream_path, exchange.upstream_body, exchange.sent
        try:
            if before:
                return [*before, *tokenize(self.fetch, exchange, text, add_special=False)]
            exchange.upstream_body = chat
            return tokenize(self.fetch, exchange, prompt_text(self.fetch, exchange) + text)
        except (ChildFailed, ChildRefused, ChildSilent, Retryable):
            return None
        finally:
            exchange.upstream_path, exchange.upstream_body, exchange.sent = sent
