"""Target: what needs no socket: the JSON door, the dialects' parsers, the framing and head of a child's answer, the
event reader and the translators. Cut one way and another, the same bytes must mean the same."""

import itertools
import json
from random import Random

from blazar.errors import BlazarError, RequestRefused
from blazar.proxy.dialects.anthropic import AnthropicDialect
from blazar.proxy.dialects.ollama import OllamaDialect
from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.json import BadJson, loads
from blazar.proxy.sse import SseReader
from blazar.proxy.wire.framing import BadFraming
from blazar.proxy.wire.head import parse_head
from tests.support.exchanges import exchange_of
from tests.support.fuzz import bodies, streams
from tests.support.fuzz.fault import Fault
from tests.support.fuzz.mutate import spoil_bytes, spoiled_json
from tests.support.wire import cut

BROKEN = "broken"
NOW = 1767225600.0
OPERATIONS = {"/v1/chat/completions": "chat", "/v1/completions": "completions", "/api/chat": "chat",
              "/api/generate": "generate", "/v1/messages": "messages"}
QUESTIONS = [(dialect, OPERATIONS[path], valid) for dialect, _, path, valid in bodies.VALID if path in OPERATIONS]


def dialects() -> dict:
    """A dialect by name, with a stopped clock and counted ids, so that the same bytes give the same answer."""
    numbers = itertools.count()
    return {"openai": OpenAIDialect(),
            "ollama": OllamaDialect(now=lambda: NOW, monotonic=lambda: 0.0, new_id=lambda: f"c{next(numbers)}"),
            "anthropic": AnthropicDialect(new_id=lambda prefix: f"{prefix}{next(numbers)}")}


class Pure:
    def try_one(self, chance: Random, number: int) -> str:
        return self._request(chance) if number % 2 else self._answer(chance, number)

    def close(self) -> None:
        pass

    @staticmethod
    def _request(chance: Random) -> str:
        name, operation, valid = chance.choice(QUESTIONS)
        body = spoiled_json(json.loads(json.dumps(valid)), chance)
        dialect = dialects()[name]
        try:
            exchange = dialect.parse(operation, body, {}, "r")
            if not exchange.knobs.get("load_only"):
                loads(exchange.upstream_body)
        except RequestRefused as refused:
            if not 400 <= dialect.error(refused)[0] < 500:
                raise Fault("a refusal that is no 4xx", body) from refused
            return f"{name} refused"
        except Exception as error:
            raise Fault(f"{name} {operation}: {error!r}", body) from error
        return f"{name} read"

    @staticmethod
    def _answer(chance: Random, number: int) -> str:
        data = b"".join(streams.make(chance, number // 2).pieces)
        if chance.random() < 0.2:
            data = spoil_bytes(data, chance)
        name = chance.choice(["ollama", "anthropic"])
        stops = chance.choice([(), (), ("lo",), ("\n\n", "é", "data: xHel")])
        try:
            whole, pieces = (_translated(name, parts, stops) for parts in ([data], cut(data, number)))
        except Exception as error:
            raise Fault(f"{name}: {error!r}", data) from error
        if not _same(whole, pieces):
            raise Fault(f"{name}: cut otherwise it means {pieces!r} instead of {whole!r}", data)
        return f"{name} {whole[1]}"


def _translated(name: str, pieces: list[bytes], stops: tuple[str, ...]) -> tuple[bytes, str]:
    """What a streaming client gets for a child's bytes, and how it ended."""
    head, _, body = b"".join(pieces).partition(b"\r\n\r\n")
    dialect = dialects()[name]
    exchange = exchange_of("r", dialect, "chat", "m", stream=True, stops=stops)
    translator, reader = dialect.translator(exchange), SseReader()
    got: list[bytes] = []
    try:
        framing = parse_head(head).framing()
        for piece in _recut(body, pieces, len(head) + 4):
            for data in reader.feed(framing.feed(piece)):
                got.append(_fed(translator, data))
            if framing.ended:
                break
        got.append(translator.finish())
    except BadFraming:
        return b"".join(got), BROKEN
    except (BadJson, BlazarError) as known:
        return b"".join(got) + translator.fail(known), "failed"
    return b"".join(got), "ended"


def _same(whole: tuple[bytes, str], pieces: tuple[bytes, str]) -> bool:
    """Whether both mean the same. What comes in one read with broken framing is lost, so more came of the pieces."""
    if whole[1] == BROKEN:
        return pieces[0].startswith(whole[0])
    return whole == pieces


def _recut(body: bytes, pieces: list[bytes], skipped: int) -> list[bytes]:
    """The body in the pieces that the whole answer was cut into."""
    found, position = [], 0
    for piece in pieces:
        start, position = position, position + len(piece)
        if position > skipped:
            found.append(piece[max(0, skipped - start):])
    return found


def _fed(translator, data: str) -> bytes:
    event = loads(data) if data != "[DONE]" else {}
    return translator.feed(event) if isinstance(event, dict) else b""


