"""`Dialect`: the interface of one wire form. Pure: no sockets, no settings lookup, no model resolution."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from blazar.proxy.exchange import Answer, Embedded, Exchange, Translator


class Dialect(ABC):
    """One wire form: how its requests are read and its answers and errors are written.

    `relays` says that the child's bytes reach the client unparsed; such a dialect has no translator and no render.
    """

    name: str
    relays = False
    stream_type = "text/event-stream"
    busy = 503
    """The status of a refusal because too many others wait."""

    @abstractmethod
    def parse(self, operation: str, body: bytes, headers: Mapping[str, str], request_id: str) -> Exchange:
        """The Exchange for a request's body; `headers` has lower-case names.

        Raises RequestRefused (400) and its kin for anything the dialect cannot accept. Sets `upstream_path` and
        `upstream_body`; a translating dialect always asks the child for a stream.
        """

    @abstractmethod
    def error(self, error: Exception) -> tuple[int, bytes]:
        """Status and JSON body of an error, in this dialect's shape."""

    @abstractmethod
    def stream_error(self, error: Exception) -> bytes:
        """The same error inside a stream that has begun."""

    def heartbeat(self, exchange: Exchange) -> bytes:
        """A sign of life for a stream that has not begun, which clients pass over: here a comment of SSE."""
        return b": still working\n\n"

    def translator(self, exchange: Exchange) -> Translator:
        raise NotImplementedError(f"{self.name} relays bytes")

    def render(self, exchange: Exchange, answer: Answer) -> bytes:
        """The buffered JSON answer for a whole answer of the child."""
        raise NotImplementedError(f"{self.name} relays bytes")

    def render_embedded(self, exchange: Exchange, embedded: Embedded) -> bytes:
        """The answer that holds the vectors of `exchange.inputs`."""
        raise NotImplementedError(f"{self.name} has no embeddings")

    def render_count(self, tokens: int) -> bytes:
        """The answer to the question how long a prompt is."""
        raise NotImplementedError(f"{self.name} does not count tokens")
