"""Stage `media`: pictures, sounds and films are whole, and the model can be shown them; refused before anything is
loaded. A request of text alone costs a search through its bytes; one whose pictures are in form keeps those it has."""

from collections.abc import Callable
from typing import Any

from blazar.errors import NotShown
from blazar.proxy.dialects import media
from blazar.proxy.directory import Directory
from blazar.proxy.exchange import Exchange
from blazar.proxy.json import dumps
from blazar.proxy.json_scan import BodyReader


class Media:
    def __init__(self, directory: Directory, reader: BodyReader, pause: Callable[[], None]) -> None:
        self._directory = directory
        self._reader = reader
        self._pause = pause

    def __call__(self, exchange: Exchange) -> None:
        if exchange.plain:
            return
        body = exchange.upstream_body
        # To search a large body takes its time; an engine that can be shown nothing refuses it by itself. One that was
        # translated has taken more already.
        if (len(body) <= media.STEP or not exchange.dialect.relays or self._can_be_shown(exchange.model)
                ) and media.may_show(body, self._pause):
            self._look(exchange)

    def _can_be_shown(self, model: str) -> bool:
        return not media.WORDS.keys().isdisjoint(self._directory.models[model]["capabilities"])

    def _look(self, exchange: Exchange) -> None:
        body, translated = exchange.upstream_body, not exchange.dialect.relays
        asked = self._reader.again(body, exchange.payload) if body is exchange.body else self._reader.whole(body)
        model = self._directory.models[exchange.model]
        if translated and media.settle_offers(asked, "vision" in model["capabilities"]):
            exchange.upstream_body = media.written(asked)
        senses, pictures = media.shown(asked, self._pause, translated)
        for sense in sorted(senses):
            if sense not in model["capabilities"]:
                raise _refused(exchange.model, sense, model)
        exchange.shown = bool(senses)
        if senses and not translated and not (pictures and media.holds_only(body, pictures)):
            exchange.upstream_body = dumps(asked) if asked is exchange.payload else media.written(asked)


def _refused(name: str, sense: str, model: dict[str, Any]) -> NotShown:
    what, setting = media.WORDS[sense], model.get("blind")
    if setting:
        return NotShown(model=name, what=what, reason=f"`{setting}` leaves its projector out",
                        remedy="send text alone, or have whoever runs this Blazar change that setting")
    return NotShown(model=name, what=what, reason=f"it has no projector for {what}",
                    remedy=f"send text alone, or choose a model whose capabilities name {sense!r}")
