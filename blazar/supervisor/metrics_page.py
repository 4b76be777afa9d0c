"""`MetricsPage`: the one page of /metrics, out of what gateway workers, the supervisor and the engines tell.

Everybody is asked at once and has a short time; who does not answer is left out. A page serves all who ask within
FRESH, so that no number of scrapers makes more work than one.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from blazar import __version__
from blazar.control import Link, Message
from blazar.errors import BlazarError
from blazar.hardware.census import Census
from blazar.supervisor import processes
from blazar.supervisor.child import Child
from blazar.supervisor.engine_page import LIMIT, LeftOut, read_page
from blazar.supervisor.fleet import Fleet
from blazar.supervisor.loop import Loop
from blazar.supervisor.pool import Pool
from blazar.supervisor.states import State
from blazar.supervisor.worker_counts import WorkerCounts
from blazar.supervisor.workers import Workers
from blazar.telemetry.exposition import Family, Page, labelled
from blazar.telemetry.metrics import Labels
from blazar.telemetry.supervisor_metrics import SupervisorMetrics
from blazar.transport import ROUTER, Endpoint

FRESH = 0.5
"""Seconds for which a page is good."""
PATIENCE = LIMIT + 1.0
"""Seconds until a page is made of what has come."""
SETTLED = 1.0
"""Seconds after its last request in which a child has told the end of it."""
MOST = 50_000
"""Samples of engines on one page; the engines beyond are left out."""

Asker = tuple[Link, Message]


class MetricsPage:
    """Used on the loop's thread. `look` sees the machine, on a thread."""

    def __init__(self, loop: Loop, pool: Pool, workers: Workers, fleet: Fleet, metrics: SupervisorMetrics,
                 look: Callable[[], Census], governors: Callable[[], Mapping[str, Mapping[str, str]]],
                 started_at: float) -> None:
        self._loop = loop
        self._pool = pool
        self._workers = workers
        self._fleet = fleet
        self._metrics = metrics
        self._look = look
        self._counts = WorkerCounts()
        self._askers: dict[bool, list[Asker]] = {False: [], True: []}
        self._pages: dict[bool, tuple[float, str]] = {}
        self._asked: dict[str, float] = {}
        """When the engines of which there is a page were last asked, by their children's ids."""
        self._known: dict[str, list[Family]] = {}
        self._asking: set[str] = set()
        self._census: Census | None = None
        self._resident: Mapping[int, int] = {}
        """Bytes of main memory by process."""
        self._declare(governors, started_at)

    def told(self, link: Link, message: Message) -> None:
        """Answer with the page, as `text`; without what engines tell, if the message's `engines` is false."""
        engines = bool(message.get("engines", True))
        made, text = self._pages.get(engines, (float("-inf"), ""))
        if self._loop.now() - made < FRESH:
            link.answer(message, text=text)
            return
        self._askers[engines].append((link, message))
        if len(self._askers[engines]) == 1:
            self._gather(engines)

    def counted(self, link: Link, message: Message) -> None:
        """A worker's last words."""
        self._counts.keep(int(message["pid"]), [Family.from_plain(plain) for plain in message["families"]])

    # -- asking around -----------------------------------------------------------------------------------

    def _gather(self, engines: bool) -> None:
        children = [child for child in self._fleet.children() if engines and child.place != ROUTER and child.endpoint]
        pages: dict[str, list[Family] | LeftOut] = {}
        parts = _Parts(self._loop, 2 + len(children), lambda: self._make(engines, children, pages))
        self._workers.gather("metrics", lambda answers: parts.one_less(self._heard, answers))
        self._pool.submit(lambda seen, _: parts.one_less(self._seen, seen), self._see, self._own_pids())
        for child in children:
            self._ask(child, pages, parts)

    def _ask(self, child: Child, pages: dict[str, list[Family] | LeftOut], parts: "_Parts") -> None:
        """Ask an engine, unless it is asked already. One that would sleep is asked once more after its last request,
        and not again: what it says does not change, and some versions wake up for that, or stay awake."""
        endpoint, now = child.endpoint, self._loop.now()
        assert endpoint is not None
        use = self._workers.use_of(*child.lease_ids)
        last_used = max(use.last_used, child.ready_at)
        sleeps_after = float(child.prepared.launch.settings.get("idle_sleep_secs") or 0) if child.prepared else 0.0
        if sleeps_after and not use.in_flight and (
                self._asked.get(child.id, 0.0) > last_used + SETTLED or now - last_used >= sleeps_after):
            pages[child.id] = self._known.get(child.id, [])
            parts.one_less()
        elif child.id in self._asking:
            parts.one_less()
        else:
            self._asking.add(child.id)
            self._pool.submit(partial(self._answered, child.id, now, pages, parts), _page_or_reason, endpoint)

    def _answered(self, child_id: str, asked: float, pages: dict[str, list[Family] | LeftOut], parts: "_Parts",
                  found: Any, error: BlazarError | None) -> None:
        self._asking.discard(child_id)
        pages[child_id] = found if error is None else LeftOut("garbage")
        if isinstance(found, list):
            self._asked[child_id], self._known[child_id] = asked, found
        parts.one_less()

    def _heard(self, answers: list[Message]) -> None:
        self._counts.take({int(answer["pid"]): [Family.from_plain(plain) for plain in answer["families"]]
                           for answer in answers})

    def _own_pids(self) -> list[int]:
        return [child.pid for child in self._fleet.children() if child.pid] + [
            worker.pid for worker in self._workers.all()]

    def _see(self, pids: list[int]) -> tuple[Census, dict[int, int]]:
        return self._look(), {pid: processes.resident(pid) for pid in (0, *pids)}

    def _seen(self, seen: tuple[Census, dict[int, int]] | None) -> None:
        if seen is not None:
            self._census, self._resident = seen

    # -- the page ----------------------------------------------------------------------------------------

    def _make(self, engines: bool, children: list[Child], pages: Mapping[str, list[Family] | LeftOut]) -> None:
        living = {child.id for child in self._fleet.children()}
        self._asked = {one: at for one, at in self._asked.items() if one in living}
        self._known = {one: page for one, page in self._known.items() if one in living}
        chosen = self._chosen(children, pages)
        own, of_workers = self._metrics.families(), self._counts.families()
        self._pool.submit(partial(self._made, engines), _merged, [*of_workers, *own], chosen)

    def _chosen(self, children: list[Child], pages: Mapping[str, list[Family] | LeftOut]) -> list[tuple[str, Family]]:
        """What stands on the page of what engines have told, with the model that it is of."""
        found: list[tuple[str, Family]] = []
        room = MOST
        for child in children:
            page = pages.get(child.id, LeftOut("time"))
            size = 0 if isinstance(page, LeftOut) else sum(len(family.samples) for family in page)
            if isinstance(page, LeftOut) or size > room:
                self._metrics.left_out.add(child.model, str(page) if isinstance(page, LeftOut) else "size")
                continue
            room -= size
            more = {"model": child.model, "replica": child.replica}
            found += [(child.model, labelled(family, more)) for family in page]
        return found

    def _made(self, engines: bool, made: tuple[str, list[str]] | None, error: BlazarError | None) -> None:
        askers, self._askers[engines] = self._askers[engines], []
        if made is None:
            for link, message in askers:
                link.refuse(message, error or BlazarError("there is no page"))
            return
        text, clashes = made
        for model in clashes:
            self._metrics.left_out.add(model, "clash")  # the next page tells of it
        self._pages[engines] = self._loop.now(), text
        for link, message in askers:
            link.answer(message, text=text)

    # -- what the supervisor itself tells ------------------------------------------------------------------

    def _declare(self, governors: Callable[[], Mapping[str, Mapping[str, str]]], started_at: float) -> None:
        metrics = self._metrics
        metrics.version.read = lambda: {(__version__,): 1}
        metrics.started.read = lambda: started_at
        metrics.loaded.read = lambda: len({model for child in self._fleet.ready() for model in child.models})
        metrics.states.read = lambda: {(*_names(child), child.state.value): 1 for child in self._present()}
        metrics.slots.read = lambda: {_names(child): child.endpoint.slots for child in self._fleet.ready()
                                      if child.endpoint}
        metrics.in_flight.read = lambda: {_names(child): self._workers.use_of(*child.lease_ids).in_flight
                                          for child in self._present()}
        metrics.planned.read = lambda: {(*_names(child), memory): size for child in self._present()
                                        for memory, size in child.held.sizes.items()}
        metrics.resident.read = lambda: {_names(child): self._resident[child.pid] for child in self._present()
                                         if self._resident.get(child.pid)}
        metrics.spec_governor.read = lambda: _of(governors(), "spec")
        metrics.ubatch_governor.read = lambda: _of(governors(), "ubatch")
        metrics.memory.read = lambda: (self._census and self._census.memory.usable) or 0
        metrics.memory_free.read = lambda: (self._census and self._census.memory.free) or 0
        metrics.gpu.read = lambda: self._gpus("memory")
        metrics.gpu_free.read = lambda: self._gpus("free")
        metrics.workers.read = lambda: len(self._workers.all())
        metrics.processes.read = lambda: {("supervisor",): self._resident.get(0, 0), ("gateway",): sum(
            self._resident.get(worker.pid, 0) for worker in self._workers.all())}

    def _present(self) -> list[Child]:
        return [child for child in self._fleet.children() if child.state is not State.ABSENT]

    def _gpus(self, what: str) -> dict[Labels, float]:
        gpus = self._census.known_gpus if self._census else ()
        return {(gpu.bus or gpu.uuid or str(place), gpu.name or gpu.vendor): getattr(gpu, what)
                for place, gpu in enumerate(gpus) if getattr(gpu, what) is not None}


class _Parts:
    """Waits until so many parts have come, or PATIENCE is over, then calls once."""

    def __init__(self, loop: Loop, count: int, then: Callable[[], None]) -> None:
        self._left = count
        self._then: Callable[[], None] | None = then
        self._timer = loop.later(PATIENCE, self._end)

    def one_less(self, take: Callable[..., None] = lambda *_: None, *what: Any) -> None:
        take(*what)
        self._left -= 1
        if self._left <= 0:
            self._end()

    def _end(self) -> None:
        self._timer.cancel()
        then, self._then = self._then, None
        if then is not None:
            then()


def _page_or_reason(endpoint: Endpoint) -> list[Family] | LeftOut:
    try:
        return read_page(endpoint)
    except LeftOut as reason:
        return reason


def _merged(own: list[Family], engines: list[tuple[str, Family]]) -> tuple[str, list[str]]:
    """On a thread: the text, and the models of what clashed."""
    page = Page(own)
    clashes = [model for model, family in engines if not page.add(family)]
    return page.text(), clashes


def _names(child: Child) -> Labels:
    return child.model, child.replica


def _of(governors: Mapping[str, Mapping[str, str]], which: str) -> dict[str, str]:
    return {model: states[which] for model, states in governors.items() if which in states}
