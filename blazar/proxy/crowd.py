"""`Crowd`: all who wait for one model, for a slot or for its load, and who of them gives way when there is no room.

A bound on all of them alone would let one API key take every place, and shut the others out before their turn is even
reckoned. So a newcomer that finds no room gets the place of the one that came last of the key which has most waiting,
for its weight; unless its own key would then have as many.
"""

from blazar.proxy.exchange import Exchange


class _Line:
    """Those of one key, the last to come at the end."""

    __slots__ = ("waiting", "weight")

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.waiting: dict[int, Exchange] = {}

    @property
    def length(self) -> float:
        return len(self.waiting) / self.weight


class Crowd:
    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def add(self, exchange: Exchange, key: str, weight: float) -> None:
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(weight)
        line.waiting[id(exchange)] = exchange
        self._size += 1

    def remove(self, exchange: Exchange, key: str) -> None:
        """It waits no longer; nothing happens when it gave way before."""
        line = self._lines.get(key)
        if line is not None and line.waiting.pop(id(exchange), None) is not None:
            self._size -= 1
            if not line.waiting:
                del self._lines[key]

    def give_way(self, key: str, weight: float) -> Exchange | None:
        """Take out the one that makes room for a newcomer of `key`; None when the newcomer has to go itself."""
        longest = max(self._lines, key=lambda name: self._lines[name].length)
        own = self._lines.get(key)
        after = ((len(own.waiting) if own is not None else 0) + 1) / weight
        if longest == key or self._lines[longest].length <= after:
            return None
        last = next(reversed(self._lines[longest].waiting.values()))
        self.remove(last, longest)
        return last
