"""A child's answer as Ollama writes it: one JSON object, or a line for each piece and a last one with the counts."""

from collections.abc import Callable, Sequence
from typing import Any

from blazar.proxy.assemble import Assembler, arguments_of
from blazar.proxy.dialects.fields import public
from blazar.proxy.dialects.times import rfc3339
from blazar.proxy.exchange import Answer, Exchange, Usage
from blazar.proxy.json import dumps

IMPOSSIBLE = -9999.0
"""The logarithm of no probability at all, for clients that insist on a number."""


class OllamaTranslator:
    """The NDJSON stream of one answer. Tool calls follow the text in one line, before the last."""

    def __init__(self, exchange: Exchange, writer: "Writer", assembler: Assembler) -> None:
        self._exchange = exchange
        self._writer = writer
        self._assembler = assembler

    @property
    def usage(self) -> Usage:
        return self._assembler.answer.usage

    @property
    def stopped(self) -> bool:
        return self._assembler.stopped

    def feed(self, event: dict[str, Any]) -> bytes:
        piece = self._assembler.feed(event)
        if not piece.text and not piece.thinking and not piece.logprobs:
            return b""
        return self._writer.line(self._exchange, piece.text, piece.thinking, likely=piece.logprobs)

    def finish(self) -> bytes:
        rest = self._assembler.rest()
        answer = self._assembler.finish()
        calls, raw = self._writer.split_calls(answer)
        lines = self._writer.line(self._exchange, rest + raw, "", calls) if calls or rest or raw else b""
        last = self._writer.body(self._exchange, "", "") | self._writer.ending(self._exchange, answer)
        return lines + dumps(last) + b"\n"

    def fail(self, error: Exception) -> bytes:
        return error_line(error)


class Writer:
    """Writes the parts of an answer. `now` is wall time and `monotonic` CLOCK_MONOTONIC, both in seconds."""

    def __init__(self, now: Callable[[], float], monotonic: Callable[[], float],
                 new_id: Callable[[], str]) -> None:
        self._now = now
        self._new_id = new_id
        self._monotonic = monotonic

    def whole(self, exchange: Exchange, answer: Answer) -> dict[str, Any]:
        """The buffered answer."""
        calls, raw = self.split_calls(answer)
        body = self.body(exchange, answer.text + raw, answer.thinking, calls, answer.logprobs)
        return body | self.ending(exchange, answer)

    def loaded(self, exchange: Exchange) -> dict[str, Any]:
        """The answer to a request without a prompt, which only loads or unloads the model."""
        reason = "unload" if exchange.keep_alive == 0 else "load"
        return self.body(exchange, "", "") | {"done": True, "done_reason": reason}

    def line(self, exchange: Exchange, text: str, thinking: str, calls: list[dict[str, Any]] | None = None,
             likely: Sequence[dict[str, Any]] = ()) -> bytes:
        """One line of a stream."""
        return dumps(self.body(exchange, text, thinking, calls, likely) | {"done": False}) + b"\n"

    def body(self, exchange: Exchange, text: str, thinking: str, calls: list[dict[str, Any]] | None = None,
             likely: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
        """The fields that hold what the model said; `likely` are OpenAI's logprobs of it."""
        head: dict[str, Any] = {"model": exchange.asked, "created_at": rfc3339(self._now())}
        if likely:
            wanted = exchange.payload.get("top_logprobs") or 0
            head["logprobs"] = [_likely(token) | _others(token, wanted) for token in likely]
        more: dict[str, Any] = {"thinking": thinking} if thinking else {}
        if exchange.operation == "generate":
            return head | {"response": text} | more
        if calls:
            more["tool_calls"] = calls
        return head | {"message": {"role": "assistant", "content": text} | more}

    def ending(self, exchange: Exchange, answer: Answer) -> dict[str, Any]:
        """The closing fields: why it ended, tokens, and times in nanoseconds."""
        usage = answer.usage
        tokens = exchange.tokens_with(answer.text) if exchange.tokens_with is not None else None
        context = {} if tokens is None else {"context": tokens}
        working = exchange.load_ns + usage.prompt_ns + usage.completion_ns
        return {"done": True, "done_reason": "length" if answer.finish_reason == "length" else "stop", **context,
                "total_duration": max(self.elapsed_ns(exchange), working), "load_duration": exchange.load_ns,
                "prompt_eval_count": usage.prompt_tokens, "prompt_eval_duration": usage.prompt_ns,
                "eval_count": usage.completion_tokens, "eval_duration": usage.completion_ns}

    def elapsed_ns(self, exchange: Exchange) -> int:
        """Nanoseconds since the exchange began."""
        return round((self._monotonic() - exchange.started) * 1e9) if exchange.started else 0

    def split_calls(self, answer: Answer) -> tuple[list[dict[str, Any]], str]:
        """The calls whose arguments are an object, and the others as the model wrote them, for the reader to see."""
        calls: list[dict[str, Any]] = []
        raw = []
        for call in answer.tool_calls:
            arguments = arguments_of(call)
            if arguments is None:
                raw.append(f"{call.name}({call.arguments})")
            else:
                function = {"index": len(calls), "name": call.name, "arguments": arguments}
                calls.append({"id": call.id or self._new_id(), "function": function})
        return calls, "\n".join(raw)


def _likely(token: dict[str, Any]) -> dict[str, Any]:
    value = token.get("logprob")
    return {"token": str(token.get("token", "")), "bytes": token.get("bytes"),
            "logprob": value if isinstance(value, int | float) else IMPOSSIBLE}


def _others(token: dict[str, Any], wanted: int) -> dict[str, Any]:
    others = token.get("top_logprobs")
    told = [_likely(other) for other in others if isinstance(other, dict)] if isinstance(others, list) else []
    return {"top_logprobs": told[:wanted]} if wanted else {}


def error_line(error: Exception) -> bytes:
    return dumps({"error": public(error).message}) + b"\n"
