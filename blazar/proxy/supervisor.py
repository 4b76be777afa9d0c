"""`Supervisor`: the gateway's end of the control connection.

It says hello, keeps the directory fresh, reports use, and asks for what only the supervisor may do. When the
connection drops it is made again with growing pauses, declaring the leases that are held; until then requests to
loaded models go on, and what needs the supervisor is refused with SupervisorGone.
"""

import itertools
import logging
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from blazar.control import Link, Message, connect
from blazar.errors import BlazarError, SupervisorGone
from blazar.proxy import greens
from blazar.proxy.directory import Directory
from blazar.proxy.job import Job
from blazar.proxy.ledger import Ledger
from blazar.proxy.under_way import told
from blazar.transport import Endpoint

ANSWER_TIMEOUT = 10.0
"""Seconds for an answer that takes no work."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Seconds between attempts to reach a supervisor that is gone."""

log = logging.getLogger("blazar.proxy")


class Supervisor:
    """What the gateway may say to the supervisor."""

    def __init__(self, control: Path, directory: Directory, ledger: Ledger) -> None:
        self._control = control
        self._directory = directory
        self._ledger = ledger
        self._link: Link | None = None
        self._reported: Any = None
        self._numbers = itertools.count(1)
        self._jobs: weakref.WeakValueDictionary[int, Job] = weakref.WeakValueDictionary()
        self.on_stopping: Callable[[float], None] = lambda grace: None
        """Called with the seconds after which exchanges are to be ended."""
        self.on_relieved: Callable[[float], None] = lambda grace: None
        """The same, when another gateway has taken over; no connection is to be taken any more when it returns."""
        self.certificate: dict[str, str] | None = None
        """The PEM texts with which clients are received, as the supervisor has read them last."""
        self.on_certificate: Callable[[], None] = lambda: None
        """Called when there are others."""
        self.on_keys: Callable[[list[dict[str, Any]]], None] = lambda entries: None
        """Called with the API keys that are in force from now on."""
        self.on_event: Callable[[dict[str, Any]], None] = lambda event: None
        self.on_lost: Callable[[], None] = lambda: None
        """Called when the connection has closed, and events may be missed from now on."""
        self.counts: Callable[[], list[Any]] = lambda: []
        """Gives the families of this worker's metrics, as plain values."""

    def start(self) -> dict[str, Any]:
        """Connect, say hello; the settings as plain values. Raises SupervisorGone when there is no supervisor."""
        return self._hello()["config"]

    def keep_trying(self) -> None:
        """Connect in the background, as often as it takes."""
        greens.spawn(self._reconnect)

    def ensure_ready(self, model: str, ctx: int = 0, shown: bool = False) -> Endpoint:
        """Wait until a child serves `model`, with a context of `ctx` tokens or more where that can be, and with its
        projector if it is `shown` something.

        Raises what the supervisor says when it cannot serve.
        """
        more = {**({"ctx": ctx} if ctx else {}), **({"shown": True} if shown else {})}
        return Endpoint.from_dict(self._ask("ensure_ready", None, model=model, **more)["endpoint"])

    def evict(self, model: str) -> bool:
        """Unload `model` once its requests have ended; whether it was loaded."""
        return bool(self._ask("evict", None, model=model)["evicted"])

    def examine(self, child_id: str, stalled: bool) -> bool:
        """Whether a child does nothing for anybody, or is gone; see `control.MESSAGES`."""
        return bool(self._ask("examine", ANSWER_TIMEOUT, child_id=child_id, stalled=stalled)["wedged"])

    def put_down(self, child_id: str) -> None:
        """Have a wedged child ended at once."""
        if self._link is not None:
            self._link.note("put_down", child_id=child_id)

    def remove(self, model: str) -> None:
        """Unload `model` and take it out of the store."""
        self._ask("remove", None, model=model)

    def describe(self, model: str) -> dict[str, Any]:
        """The model's row and the facts of its file."""
        return self._ask("describe", ANSWER_TIMEOUT, model=model)["model"]

    def explain(self, model: str) -> dict[str, Any]:
        """How the model is loaded, or would be."""
        return self._ask("explain", ANSWER_TIMEOUT, model=model)["explained"]

    def job(self, verb: str, **fields: Any) -> Job:
        """Have long work done; see `Job`."""
        if self._link is None:
            raise SupervisorGone(what=f"`{verb}`")
        job = Job(self._link, next(self._numbers), verb, **fields)
        self._jobs[job.number] = job
        return job

    def create(self, **recipe: Any) -> dict[str, Any]:
        """Make a model: its summary as `model`, and `warnings`."""
        return self._ask("create", None, **recipe)

    def copy(self, source: str, name: str, alias: bool) -> None:
        """Give a model another name, one that shares its engine if `alias`."""
        self._ask("copy", None, source=source, name=name, alias=alias)

    def has_blob(self, digest: str) -> bool:
        """Whether the store has a file of that content, or was sent one."""
        return bool(self._ask("blob", ANSWER_TIMEOUT, digest=digest, token=None)["here"])

    def take_blob(self, digest: str, token: str) -> None:
        """Have the file that was written under `token` checked and kept."""
        self._ask("blob", None, digest=digest, token=token)

    def keep(self, table: str, verb: str, **fields: Any) -> dict[str, Any]:
        """Have something done with what is kept for clients; see `control.MESSAGES`."""
        return self._ask("keep", ANSWER_TIMEOUT, table=table, verb=verb, **fields)

    def message_batch(self, verb: str, **fields: Any) -> dict[str, Any]:
        """Have something done with batches of messages; see `control.MESSAGES`."""
        return self._ask("message_batch", ANSWER_TIMEOUT, verb=verb, **fields)

    def files(self, verb: str, owner: str, **fields: Any) -> dict[str, Any]:
        """Have something done with the files of clients; see `control.MESSAGES`."""
        return self._ask("files", None if verb == "put" else ANSWER_TIMEOUT, verb=verb, owner=owner, **fields)

    def batches(self, verb: str, **fields: Any) -> dict[str, Any]:
        """Have something done with the batches of clients; see `control.MESSAGES`."""
        return self._ask("batches", None if verb == "finish" else ANSWER_TIMEOUT, verb=verb, **fields)

    def requests(self, key: str | None, finished: int, cancel: str | None) -> dict[str, Any]:
        """What all gateway workers say of their requests; see `under_way.told`."""
        return self._ask("requests", ANSWER_TIMEOUT, key=key, finished=finished, cancel=cancel)

    def metrics_page(self, engines: bool) -> str:
        """The text of /metrics; without what engines tell, if so wished."""
        return self._ask("metrics", ANSWER_TIMEOUT, engines=engines)["text"]

    def events(self, **since: str) -> dict[str, Any]:
        """The `events` after the id `last`, or from the time `since` on, and whether some are `missed`."""
        return self._ask("events", ANSWER_TIMEOUT, **since)

    def publish(self, kind: str, **fields: Any) -> None:
        """Tell of an event of this worker's own."""
        if self._link is not None:
            self._link.note("event", event=kind, fields=fields)

    def reload(self) -> dict[str, Any]:
        """Have the configuration read again; what has come of it. Raises ConfigRefused and its kin."""
        return self._ask("reload", None)

    def keep_alive(self, model: str, seconds: float) -> None:
        """Note how long `model` is to stay loaded from now on."""
        if self._link is not None:
            self._link.note("keep_alive", model=model, seconds=seconds)

    def tick(self) -> None:
        """Once a second: a sign of life, and the counts when they changed."""
        if self._link is None:
            return
        self._link.note("beat")
        usage = self._ledger.accounts.take_news()
        children = self._ledger.children()
        if usage or children != self._reported:
            self._reported = children
            self._link.note("report", children=children, usage=usage)

    def part(self) -> None:
        """Tell the last counts, before this worker ends."""
        self.tick()
        families = self.counts()
        if self._link is not None:
            self._link.note("counted", pid=os.getpid(), families=families)

    # -- the connection ----------------------------------------------------------------------------

    def _ask(self, kind: str, timeout: float | None, **fields: Any) -> Message:
        if self._link is None:
            raise SupervisorGone(what=f"`{kind}`")
        return self._link.ask(kind, timeout, **fields)

    def _hello(self) -> Message:
        link = connect(self._control, self._hear, self._dropped)
        try:
            answer = link.ask("hello", ANSWER_TIMEOUT, self._greeted, role="gateway", pid=os.getpid(),
                              leases=self._ledger.leases())
        except BlazarError:
            link.close()
            raise
        self._reported = None
        self._link = link
        if link.closed:
            self._dropped(link)
        return answer

    def _greeted(self, answer: Message) -> None:
        """On the reader's thread: a newer snapshot may follow at once, and must be the one that stays."""
        self._directory.replace(answer["snapshot"])
        self._ledger.accounts.restore(**answer["usage"])
        self._take_certificate(answer.get("certificate"))

    def _take_certificate(self, certificate: dict[str, str] | None) -> None:
        if certificate is not None and certificate != self.certificate:
            self.certificate = certificate
            self.on_certificate()

    def _dropped(self, link: Link) -> None:
        if self._link is link:
            self._link = None
            log.warning("the control connection to the supervisor closed; connecting again")
            self.on_lost()
            self.keep_trying()

    def _reconnect(self) -> None:
        pause = FIRST_PAUSE
        while True:
            greens.sleep(pause)
            try:
                self._hello()
            except (BlazarError, OSError):
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                log.info("connected to the supervisor again")
                return

    def _hear(self, link: Link, message: Message) -> None:
        kind = message.get("kind")
        if kind == "snapshot":
            self._directory.replace(message["snapshot"])
        elif kind == "progress":
            job = self._jobs.get(message["job"])
            if job is not None:
                job.hear(message)
        elif kind == "drain":
            self._ledger.drain(message["child_id"], lambda: link.answer(message))
        elif kind == "usage":
            link.answer(message, children=self._ledger.children())
        elif kind == "keys":
            self.on_keys(message["keys"])
        elif kind == "spent":
            self._ledger.accounts.hear(message["usage"])
        elif kind == "requests":
            link.answer(message, **told(self._ledger, message["key"], message["finished"], message["cancel"]))
        elif kind == "event":
            self.on_event(message["event"])
        elif kind == "metrics":
            link.answer(message, pid=os.getpid(), families=self.counts())
        elif kind == "stopping":
            self.on_stopping(float(message["grace"]))
        elif kind == "relieve":
            self.on_relieved(float(message["grace"]))
            link.answer(message)
        elif kind == "certificate":
            self._take_certificate(message["certificate"])
