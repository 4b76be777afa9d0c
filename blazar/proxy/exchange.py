"""The values that travel through the gateway: `Exchange` (one client request), `Reply` (how it ended).

A dialect parses a request into an Exchange; stages read and amend it; `dispatch` sends it to an Endpoint and pushes
the answer into `exchange.sink`. `Answer` is a whole answer put together from the child's stream, for the lanes that
translate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from blazar.proxy.api_key import ApiKey
from blazar.transport import Endpoint


class Sink:
    """Where the answer goes. `start` is the only writer of heads; nothing may change a header after it."""

    @property
    def closing(self) -> bool:
        """No other request follows on this connection."""
        raise NotImplementedError

    @closing.setter
    def closing(self, closing: bool) -> None:
        raise NotImplementedError

    @property
    def started(self) -> bool:
        """The head was sent, or is ready to be."""
        raise NotImplementedError

    @property
    def status(self) -> int:
        """Of that head; 0 before."""
        raise NotImplementedError

    @property
    def gone(self) -> bool:
        """The client has closed, or half-closed, its side."""
        raise NotImplementedError

    @property
    def early(self) -> bool:
        """The head of a stream has left, with signs of life, before there was anything to answer."""
        raise NotImplementedError

    def start(self, status: int, headers: list[tuple[str, str]], *, raw_chunked: bool = False) -> None:
        """Send the head, unless it left early. With `raw_chunked` the writes that follow carry chunk framing."""
        raise NotImplementedError

    def beat(self, headers: list[tuple[str, str]], data: bytes) -> None:
        """Send a sign of life, the head of a stream before the first; nothing where that would have to wait."""

    def write(self, data: bytes) -> None:
        """Send part of the body; raises ClientGone when the client left."""
        raise NotImplementedError

    def flush(self) -> None:
        """Send the head now, where it is held until a body follows."""

    def direct(self) -> Any:
        """The wire.client.Client that may be handed the rest of the body as it is, from the event loop, if any."""
        return None

    def departed(self) -> "ClientGone":
        """The client turned out to be gone: no more is sent; what to raise."""
        return ClientGone()

    def finish(self) -> None:
        """End the body cleanly."""
        raise NotImplementedError

    def give(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """All of an answer, whose length is the last of its headers: head, body, end."""
        self.start(status, headers)
        self.write(body)
        self.finish()

    def abort(self) -> None:
        """End the connection so that the client can tell the body is not whole."""
        raise NotImplementedError

    def watch(self, on_gone: Callable[[], None]) -> None:
        """Until `unwatch`, call `on_gone`, from the event loop, as soon as the client is gone."""

    def unwatch(self) -> None:
        """The end of `watch`."""


def send_whole(sink: Sink, status: int, headers: list[tuple[str, str]], body: bytes,
               content_type: str = "application/json") -> None:
    """A whole answer into `sink`: head, body, end."""
    sink.give(status, [*headers, ("Content-Type", content_type), ("Content-Length", str(len(body)))], body)


class ClientGone(Exception):
    """The client closed its connection; nothing can be told to it any more."""


class ClientSlow(ClientGone):
    """The client read nothing for so long that its request was cancelled."""


class Retryable(Exception):
    """An attempt failed before any byte of an answer, and may be made once more; `error` is what to say if not.

    `unreachable` says that the child did not even accept a connection, so it may be gone.
    """

    def __init__(self, error: Exception, unreachable: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.unreachable = unreachable


class Usage:  # noqa: PLW1641 - it is amended, so nobody may go by its hash
    """Tokens and times of one answer, as the engine counted them; times in nanoseconds, 0 when unknown."""

    def __init__(self, prompt_tokens: int = 0, completion_tokens: int = 0, cached_tokens: int = 0, prompt_ns: int = 0,
                 completion_ns: int = 0, estimated: bool = False, timed: bool = False) -> None:
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = completion_tokens
        self.cached_tokens = cached_tokens
        self.prompt_ns = prompt_ns
        self.completion_ns = completion_ns
        self.estimated = estimated
        """The engine told no count; this one is a guess."""
        self.timed = timed
        """Its times were told too, which llama.cpp does unasked."""

    def plain(self) -> tuple[int, int, int, int, int, bool, bool]:
        """All of it, in the order of the arguments."""
        return (self.prompt_tokens, self.completion_tokens, self.cached_tokens, self.prompt_ns, self.completion_ns,
                self.estimated, self.timed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Usage) and self.plain() == other.plain()

    def __repr__(self) -> str:
        return f"Usage{self.plain()}"


@dataclass
class ToolCall:
    """One call of a tool by the model; `arguments` is the JSON text exactly as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass
class Part:
    """A stretch of an answer: words of one kind, `text` or `thinking`, or a `call`."""

    kind: str
    words: list[str] = field(default_factory=list)
    call: ToolCall | None = None


@dataclass
class Answer:
    """A whole answer: text, thinking, tool calls, and why it ended; `parts` has all of it in the order it came.

    `finish_reason` is OpenAI's word (stop, length, tool_calls); `stop_text` is the caller's own stop sequence that
    ended it, when the engine says so.
    """

    text: str = ""
    thinking: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    finish_reason: str = "stop"
    stop_text: str | None = None
    usage: Usage = field(default_factory=Usage)
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    """How likely each token was, as the engine tells it, if that was asked for."""


@dataclass
class Inputs:
    """What is to be embedded, in order: texts or lists of token ids. With `truncate` what is too long is cut off; with
    `late` they are the parts of one document. `dimensions` are the numbers that a vector may have; 0 = all of them."""

    items: list[str] | list[list[int]]
    truncate: bool = False
    late: bool = False
    dimensions: int = 0


@dataclass
class Embedded:
    """One vector for each input, in the order of the inputs, and the tokens they were made of."""

    vectors: list[list[float]]
    prompt_tokens: int


class Translator(Protocol):
    """Turns the child's stream into the client's stream, one parsed child event at a time. One per attempt."""

    @property
    def stopped(self) -> bool:
        """The answer has ended, whatever the child may still send."""

    def feed(self, event: dict[str, Any]) -> bytes:
        """The client's bytes for one chat-completion chunk (may be empty)."""

    def finish(self) -> bytes:
        """The closing bytes, after the child's clean end (with or without [DONE])."""

    def fail(self, error: Exception) -> bytes:
        """An in-stream error, after which nothing follows."""


class Exchange:
    """One client request.

    `payload` is the parsed body; `body` are the bytes that came, which the OpenAI lane sends on unchanged.
    `upstream_path` and `upstream_body` are what the child gets. Times are CLOCK_MONOTONIC, in seconds, 0 for what has
    not happened; those of an attempt are of the last one. What most requests leave as it is stands in the class.
    """

    method: str = "POST"
    """How the child is asked."""
    gathers: bool = False
    """The child is asked for a stream, of which the client gets the whole as one answer of the child's own form."""
    needs: str = "completion"
    """The capability that the model must have; '' where any will do."""
    plain: bool = False
    """It is known to be made of texts alone."""
    shown: bool = False
    """Whether the child is shown pictures, sounds or films, which takes its projector."""
    stops: tuple[str, ...] = ()
    """Texts at which the answer ends, for the dialects that translate."""
    inputs: Inputs | None = None
    """What is to be embedded."""
    num_ctx: int = 0
    """Tokens that the model is to be able to read at least; 0 when the client did not say."""
    context: Sequence[int] = ()
    """Tokens of an earlier conversation with which this one goes on."""
    thinks: bool = False
    """The client wants the model to think first."""
    tokens_with: Callable[[str], list[int] | None] | None = None
    """The tokens of the conversation once this answer ends it, for clients that send them with their next request."""
    draft: Any = None
    """What the dialect knows beforehand of the object that will be its answer."""
    keep: Callable[[dict[str, Any]], bool] | None = None
    """Keeps such an object for its client, and says whether it could; called before the last of it is sent."""
    reshaping: Any = None
    """The `reshaping.Reshaping` through which the child's answer goes, where its form is demanded."""
    listener: Any = None
    """The `replay.Listener` that takes down the child's events, for the dialects that translate."""
    cache: str = ""
    """What the semantic cache had for it: `hit`, `miss`, or `bypass` where it is none of its matters."""
    keep_alive: float | None = None
    """Seconds to stay loaded after this, negative for ever; None when the client did not say."""
    model: str = ""
    """The canonical name, once the `name` stage has run."""
    alias: str = ""
    """The [[alias]] under which it was asked for, if it was."""
    place: str = ""
    """Which of the model's children this attempt goes to."""
    api_key: ApiKey | None = None
    sink: Sink
    """Set by the resource, before the first stage."""
    path: str = ""
    """The path of the route table to which the request came."""
    peer: Callable[[], str] | None = None
    """Tells the address of the client, for whoever looks."""
    started: float = 0.0
    """When the whole request had come."""
    sent: float = 0.0
    """When this attempt's request had been written to the child."""
    first_byte: float = 0.0
    """When the head of the answer was ready for the client."""
    overhead: float = 0.0
    """Seconds that the gateway itself took until `first_byte`."""
    beaten: float = 0.0
    """When its client was last sent a sign of life."""
    load_ns: int = 0
    """Nanoseconds spent waiting for the model to load."""
    queue_ns: int = 0
    """Nanoseconds spent waiting for a slot of a child that was ready."""
    waits: str = ""
    """What it waits for at this moment: a `load`, a `slot`, or neither."""
    background: bool = False
    """Nobody waits for its answer: it is one of a batch, and everybody else goes first."""
    context_length: int = 0
    """Tokens that the model can read; 0 when unknown."""
    prompt_tokens: int = 0
    """Tokens of the prompt, where they were counted before it was sent; else 0."""
    answer_limit: int = 0
    """Tokens that the child is allowed for its answer, where not the request alone says so; else 0."""
    usage: Usage | None = None
    """What this attempt used; None when the child did no work for it."""
    endpoint: Endpoint | None = None
    coalesced: bool = False
    """Its answer was made for an identical request."""
    ended_by: Exception | None = None
    """Why the gateway itself ended this exchange, when it did; Retryable when only this attempt."""
    call: Any = None
    """The `wire.relay.Call` to the child that is under way, if any."""
    interrupt: Callable[[], None] | None = None
    """Wakes whoever waits for the child's bytes; set while there is a connection to the child."""

    def __init__(self, id: str, dialect: Any, operation: str, asked: str, stream: bool, body: bytes,
                 payload: dict[str, Any], upstream_path: str = "/v1/chat/completions",
                 upstream_body: bytes = b"") -> None:
        """`operation` is what is asked in that dialect: `chat`, `completions`, `generate`, `messages`, `embeddings` and
        so on; `asked` the model's name as the client wrote it."""
        self.id = id
        self.dialect = dialect
        self.operation = operation
        self.asked = asked
        self.stream = stream
        self.body = body
        self.payload = payload
        self.upstream_path = upstream_path
        self.upstream_body = upstream_body
        self.knobs: dict[str, Any] = {}
        self.headers: list[tuple[str, str]] = []
        """Headers for the client, complete before dispatch."""

    def answer(self, body: bytes, usage: Usage | None = None) -> "Reply":
        """Send `body`, a whole JSON answer, with status 200; `usage` is what it took, where dispatch cannot know."""
        self.usage = usage or self.usage
        send_whole(self.sink, 200, self.headers, body)
        return Reply(200, usage=self.usage)

    def end(self, error: Exception) -> None:
        """End the exchange from outside: the child's connection closes and `error` is told to the client."""
        self.ended_by = self.ended_by or error
        if self.interrupt is not None:
            self.interrupt()

    def reason(self) -> BaseException:
        """Why who waits for something on its behalf is interrupted."""
        ended_by = self.ended_by
        return ClientGone() if self.sink.gone or ended_by is None else ended_by


class Reply:
    """How an exchange ended: status, whether it ran to its end, what it used, and the error that was told inside a
    stream which had begun."""

    def __init__(self, status: int, complete: bool = True, usage: Usage | None = None,
                 error: Exception | None = None) -> None:
        self.status = status
        self.complete = complete
        self.usage = usage
        self.error = error
