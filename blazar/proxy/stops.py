"""`StopCutter`: ends text at the first stop sequence in it, for engines that run past their own."""

from collections.abc import Sequence


class StopCutter:
    """Text goes through in pieces; what may be the beginning of a stop sequence is held back until that is known."""

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.found: str | None = None
        """The stop sequence that ended the text; nothing is let through after it."""

    def feed(self, piece: str) -> str:
        """What may be shown of the text so far, beyond what was shown before."""
        if self.found is not None:
            return ""
        text = self._held + piece
        position, self.found = self._first(text)
        if self.found is None:
            position = len(text) - self._begun(text)
        self._held = "" if self.found is not None else text[position:]
        return text[:position]

    def rest(self) -> str:
        """What is still held back, once the text has ended or something else follows it."""
        held, self._held = self._held, ""
        return held

    def _first(self, text: str) -> tuple[int, str | None]:
        """Where the first stop sequence stands, and which; of two at one place the one given first."""
        places = [(text.find(stop), order) for order, stop in enumerate(self._stops) if stop in text]
        if not places:
            return -1, None
        position, order = min(places)
        return position, self._stops[order]

    def _begun(self, text: str) -> int:
        """Characters at the end of `text` that begin a stop sequence."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for size in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-size:]) for stop in self._stops):
                return size
        return 0
