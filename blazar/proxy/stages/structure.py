"""Stage `structure`: the form that an answer must have. What the engine is asked for it, who checks it, the receipt.

A request that demands none costs it a look at the names of its fields.
"""

from collections.abc import Callable
from typing import Any, Final

from blazar.config.config import Config
from blazar.config.effective import Overlays
from blazar.errors import KnobRefused
from blazar.proxy.dialects.fields import mapping, refuse, text
from blazar.proxy.dialects.shape import thinking
from blazar.proxy.exchange import Exchange
from blazar.proxy.grammar import Envelopes, grammar
from blazar.proxy.json import dumps
from blazar.proxy.json_scan import BodyReader
from blazar.proxy.receipts import structured
from blazar.proxy.reshaping import Reshaping
from blazar.proxy.schemas import Schema
from blazar.proxy.sentinel import Sentinel
from blazar.proxy.structured import ASKS, ENFORCE, Constraint, constrain, demands, functions_of

CHAT: Final = "/v1/chat/completions"
APART, MIXED = "deepseek", ("none", "deepseek-legacy")
"""The `reasoning_format` that keeps thoughts out of the text; those that put them where no form allows them."""


class Structure:
    def __init__(self, config: Config, reader: BodyReader, pause: Callable[[], None]) -> None:
        self._config = config
        self._overlays = Overlays(config)
        self._reader = reader
        self._pause = pause
        self._watches: bool = config.sentinel
        self._enforces: bool = config.sentinel_enforce
        self._strict = config.decode_policy == "strict"
        self._reasoning_format: str = config.reasoning_format

    def __call__(self, exchange: Exchange) -> None:
        if exchange.dialect.name == "ollama":
            self._ollama(exchange)
        if not ASKS[exchange.dialect.name].isdisjoint(exchange.payload) and demands(exchange.dialect.name,
                                                                                    exchange.payload):
            self._constrain(exchange)

    def _constrain(self, exchange: Exchange) -> None:
        asked = self._reader.whole(exchange.upstream_body)
        chat = exchange.upstream_path == CHAT
        constraint, amended = constrain(asked, chat)
        if constraint is not None and chat:
            amended = self._without_thoughts(amended, constraint)
        if amended is not asked:
            exchange.upstream_body = dumps(amended)
        if constraint is None:
            return
        any_json = exchange.dialect.name == "ollama" and exchange.payload.get("format") == "json"
        exchange.headers.append(structured("json_object" if any_json else constraint.kind))
        sentinel = self._sentinel(exchange, constraint)
        if constraint.tools or sentinel is not None:
            exchange.reshaping = Reshaping(list(constraint.tools), sentinel, exchange.stops)

    def _without_thoughts(self, asked: dict[str, Any], constraint: Constraint) -> dict[str, Any]:
        """The request with what keeps thoughts out of a text that has a form; itself when nothing is needed."""
        if (asked.get("reasoning_format") or self._reasoning_format) in MIXED:
            asked = {**asked, "reasoning_format": APART}
        return _thoughtless(asked) if constraint.kind == "gbnf" else asked

    def _sentinel(self, exchange: Exchange, constraint: Constraint) -> Sentinel | None:
        """Who judges the answer; what is written in a grammar of the client's own, nobody does."""
        wished = exchange.knobs.get(ENFORCE)
        enforces = self._enforces if wished is None else wished
        if wished and exchange.stream:
            raise KnobRefused(knob="`X-Blazar-Enforce` for a stream", reason="an answer can be judged only when it is "
                              "whole, and its beginning would have gone out", remedy="send \"stream\": false with it")
        if wished and not self._watches:
            raise KnobRefused(knob="`X-Blazar-Enforce`", reason="the sentinel, which judges answers, is off",
                              remedy="set `sentinel = true`")
        if constraint.kind == "gbnf" or not self._watches:
            return None
        given = {"": (constraint.schema, constraint.where)} if constraint.schema else constraint.tools
        schemas = {tool: Schema(schema, where, self._pause) for tool, (schema, where) in given.items()}
        return Sentinel(constraint, schemas, enforces and not exchange.stream)

    # -- the Ollama lane -------------------------------------------------------------------------------------

    def _ollama(self, exchange: Exchange) -> None:
        if exchange.payload.get("raw") and exchange.operation == "generate":
            self._cap(exchange)
        elif self._strict and exchange.payload.get("tools"):
            self._confine(exchange)

    def _cap(self, exchange: Exchange) -> None:
        """Raw completions end somewhere, whatever the model thinks."""
        settings = self._overlays.of(exchange.model)
        own = settings.get("raw_lane_max_tokens")
        most = self._config.raw_lane_max_tokens if own is None else own
        asked = self._reader.whole(exchange.upstream_body)
        limit = asked.get("max_tokens")
        if most and (not isinstance(limit, int) or not 0 < limit <= most):
            exchange.upstream_body = dumps({**asked, "max_tokens": most})

    def _confine(self, exchange: Exchange) -> None:
        """Hold the calls of tools to their form by a grammar."""
        if exchange.payload.get("format") not in (None, ""):
            raise KnobRefused(knob="`format` beside `tools`", reason="`decode_policy = \"strict\"` confines an answer "
                              "to calls of tools", remedy="send one of them")
        asked = self._reader.whole(exchange.upstream_body)
        names = [text(function, "name", f"tools[{position}].function.") or refuse(
            f"tools[{position}].function.name", "the name of the tool", None)
            for position, function in functions_of(asked)]
        asked["grammar"] = grammar(names, may_speak=_was_answered(asked))
        asked["tool_choice"] = "none"  # llama-server takes no grammar beside tools that it looks after itself
        exchange.upstream_body = dumps(_thoughtless(asked))
        exchange.headers.append(structured("gbnf"))
        exchange.reshaping = Envelopes()


def _thoughtless(asked: dict[str, Any]) -> dict[str, Any]:
    """The request for a model that is not to think: a grammar begins with its very first word."""
    values = {**mapping(asked, "chat_template_kwargs"), **thinking(False)["chat_template_kwargs"]}
    return {**asked, "chat_template_kwargs": values}


def _was_answered(asked: dict[str, Any]) -> bool:
    """Whether the last turn is a tool's result."""
    turns = asked.get("messages")
    return isinstance(turns, list) and bool(turns) and turns[-1].get("role") == "tool"
