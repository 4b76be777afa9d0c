"""`Examiner`: looks at children whose requests bring nothing, and says which of them are wedged."""

import logging
import time
import urllib.parse
from collections.abc import Callable

from blazar.engines.router import section_of
from blazar.errors import BlazarError
from blazar.supervisor import processes
from blazar.supervisor.fleet import Fleet
from blazar.supervisor.policies.wedged import Look, is_wedged
from blazar.supervisor.pool import Pool
from blazar.supervisor.questions import ask
from blazar.transport import ROUTER, Endpoint

log = logging.getLogger(__name__)

ANSWER_LIMIT = 5.0
"""Seconds for the answer of a child."""
LEAST = 1.0
"""Seconds for which its use of the processor is measured, where it hangs up at once."""

Then = Callable[[bool], None]


class Examiner:
    """Used on the loop's thread."""

    def __init__(self, pool: Pool, fleet: Fleet) -> None:
        self._pool = pool
        self._fleet = fleet
        self._asking: dict[str, list[Then]] = {}
        self._seen: dict[str, Look] = {}
        """The last look at children with answers that had begun."""

    def examine(self, child_id: str, stalled: bool, then: Then) -> None:
        """`then` is told whether the child is wedged, or gone. With `stalled` an answer has begun and brings nothing
        more: it is compared with what was seen when that was last said."""
        endpoint = self._fleet.endpoint_of(child_id)
        if endpoint is None:
            then(True)
            return
        waiting = self._asking.setdefault(child_id, [])
        waiting.append(then)
        if len(waiting) == 1:
            self._pool.submit(lambda seen, error: self._looked(endpoint, stalled, seen, error), look, endpoint)

    def _looked(self, endpoint: Endpoint, stalled: bool, seen: Look | None, error: BlazarError | None) -> None:
        child_id = endpoint.child_id
        wedged = seen is not None and is_wedged(seen, self._seen.get(child_id) if stalled else None)
        if stalled and seen is not None:
            self._seen = {known: last for known, last in self._seen.items() if self._fleet.endpoint_of(known)}
            self._seen[child_id] = seen
        if error is not None:
            log.warning("%s: could not be looked at: %s", child_id, error.message)
        for then in self._asking.pop(child_id):
            then(wedged)


def look(endpoint: Endpoint) -> Look:
    """On a thread: ask the child what its slots do, and see whether its processes work meanwhile."""
    path = "/slots"
    if endpoint.lane == ROUTER:
        path += "?model=" + urllib.parse.quote(section_of(endpoint.model), safe="")
    before, began = processor_time(endpoint.pid), time.monotonic()
    status, slots = ask(endpoint.pid, endpoint.address, path, endpoint.secret, limit=ANSWER_LIMIT)
    if status == 0:
        time.sleep(max(0.0, LEAST - (time.monotonic() - began)))
    total = processor_time(endpoint.pid)
    return Look(slots if status == 200 else None if status == 0 else {}, total - before, total)


def processor_time(leader: int) -> int:
    """Ticks of processor time that the process and its group have used."""
    return sum(int(fields[11]) + int(fields[12]) for pid in {leader, *processes.in_group(leader)}
               if (fields := processes.stat_fields(pid)))
