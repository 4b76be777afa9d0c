"""`Warden`: has children examined that leave their requests without an answer, and ends those that are wedged.

A child that works stays, however long it takes. With one that does not, all its requests end: those whose clients have
been told nothing yet are tried once more, at its successor.
"""

import logging
from collections import Counter
from collections.abc import Iterable

from blazar.errors import ChildWedged, SupervisorGone
from blazar.proxy import greens
from blazar.proxy.directory import Directory
from blazar.proxy.exchange import Exchange, Retryable
from blazar.proxy.ledger import Ledger
from blazar.proxy.supervisor import Supervisor
from blazar.telemetry.metrics import Metrics
from blazar.transport import Endpoint

log = logging.getLogger("blazar.proxy")

AGAIN = 10.0
"""Seconds after which a child that was ended, and is found wedged still, is ended once more."""


class Warden:
    """With `stall` seconds, 0 = never, it looks for answers that have stopped in the middle."""

    def __init__(self, ledger: Ledger, directory: Directory, supervisor: Supervisor, metrics: Metrics,
                 stall: float) -> None:
        self._ledger = ledger
        self._directory = directory
        self._supervisor = supervisor
        self._metrics = metrics
        self._stall = stall
        self._ended: dict[str, float] = {}
        """When which children were ended: several requests find it out at the same time."""
        self._looking: set[str] = set()
        """Children that are being examined because of answers that have stopped."""

    def ends(self, endpoint: Endpoint, stalled: bool = False) -> bool:
        """Wait for the child to be examined; whether it was wedged, and is ended. `stalled` as in control.MESSAGES."""
        try:
            wedged = self._supervisor.examine(endpoint.child_id, stalled)
        except SupervisorGone:
            return False  # nobody could start another one
        if wedged:
            self._end(endpoint)
        return wedged

    def _end(self, endpoint: Endpoint) -> None:
        child_id = endpoint.child_id
        now = self._ledger.now()
        self._ended = {ended: at for ended, at in self._ended.items() if now - at < AGAIN}
        if child_id in self._ended:
            return
        self._ended[child_id] = now
        self._metrics.wedged.add(endpoint.model)
        self._directory.suspect(endpoint)
        self._ledger.lose(child_id)
        self._supervisor.put_down(child_id)
        failed = Retryable(ChildWedged(model=endpoint.model))
        for exchange in self._ledger.exchanges():
            if exchange.call is not None and exchange.endpoint is not None and exchange.endpoint.child_id == child_id:
                exchange.end(failed)

    # -- answers that stop in the middle -----------------------------------------------------------

    def look(self, now: float, exchanges: Iterable[Exchange]) -> None:
        """To be called about once a second, with those under way and the time of CLOCK_MONOTONIC."""
        if not self._stall:
            return
        quiet: Counter[Endpoint] = Counter()
        for exchange in exchanges:
            call = exchange.call
            if call is not None and call.quiet_for(now) >= self._stall and exchange.endpoint is not None \
                    and exchange.endpoint.child_id not in self._looking:
                call.excuse(now)
                quiet[exchange.endpoint] += 1
        for endpoint, answers in quiet.items():
            greens.spawn(self._examine, endpoint, answers)

    def _examine(self, endpoint: Endpoint, answers: int) -> None:
        self._looking.add(endpoint.child_id)
        try:
            ended = self.ends(endpoint, stalled=True)
        finally:
            self._looking.discard(endpoint.child_id)
        self._metrics.stalls.add(endpoint.model, "ended" if ended else "kept", by=answers)
        log.warning("%s: %d of its answers brought nothing for %g s; %s", endpoint.child_id, answers, self._stall,
                    "it is ended" if ended else "it works, so they go on")
