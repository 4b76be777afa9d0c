"""`Writing`: the responses that are being written now, so that their own client can cancel one by its id."""

import contextlib
from collections.abc import Iterator

from blazar.errors import ResponseCancelled
from blazar.proxy import greens
from blazar.proxy.exchange import Exchange


class Writing:
    def __init__(self) -> None:
        self._exchanges: dict[tuple[str, str], tuple[Exchange, greens.Event]] = {}
        """By owner and id; the event is set at the end."""

    @contextlib.contextmanager
    def of(self, owner: str, id: str, exchange: Exchange) -> Iterator[None]:
        """While this lasts, the response is being written."""
        ended = greens.Event()
        self._exchanges[owner, id] = exchange, ended
        try:
            yield
        finally:
            del self._exchanges[owner, id]
            ended.set()

    def cancel(self, owner: str, id: str, patience: float) -> bool:
        """End that response, and wait up to `patience` seconds for its end; False when none such is being written."""
        found = self._exchanges.get((owner, id))
        if found is None:
            return False
        exchange, ended = found
        exchange.end(ResponseCancelled())
        ended.wait(patience)
        return True
