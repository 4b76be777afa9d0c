"""What the supervisor answers on the control socket: one method for each kind of message, all on the run loop."""

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import blazar
from blazar.control import Link, Message
from blazar.errors import BlazarError, ShuttingDown, UsageRefused
from blazar.models.base import close_database
from blazar.store.store import Store
from blazar.supervisor import alias_check
from blazar.supervisor.abilities import as_configured
from blazar.supervisor.batch_answers import BatchAnswers
from blazar.supervisor.certificate import Certificate
from blazar.supervisor.events import Events
from blazar.supervisor.examiner import Examiner
from blazar.supervisor.explained import of_child
from blazar.supervisor.fleet import Fleet
from blazar.supervisor.gateway import Gateway
from blazar.supervisor.jobs import Jobs
from blazar.supervisor.keys import Keys
from blazar.supervisor.means import Weighed
from blazar.supervisor.message_batch_answers import MessageBatchAnswers
from blazar.supervisor.metrics_page import MetricsPage
from blazar.supervisor.pool import Pool
from blazar.supervisor.reload import Waiter
from blazar.supervisor.report import Report
from blazar.supervisor.sight import Sight
from blazar.supervisor.store_answers import StoreAnswers
from blazar.supervisor.stored_answers import StoredAnswers
from blazar.supervisor.usage import Usage
from blazar.supervisor.workers import Workers
from blazar.telemetry.redact import scrubber

log = logging.getLogger(__name__)

ASKED = ("default_ctx", "slots")
"""What `explain` may be asked for in place of the settings."""


class Answers:
    """`on_first_hello` is called when a gateway worker first greets: from then on clients are served."""

    def __init__(self, config: dict[str, Any], config_file: Path, started_at: float, url_of: Callable[[str], str],
                 *, store: Store, certificate: Certificate, reload: Callable[[Waiter], None],
                 fleet: Fleet, workers: Workers, gateway: Gateway, pool: Pool, hashing: Pool, usage: Usage,
                 jobs: Jobs, survey: Callable[[str, Mapping[str, Any]], Weighed], sight: Sight,
                 settings_for: Callable[[str], Mapping[str, Any]],
                 events: Events, page: MetricsPage, on_first_hello: Callable[[], None]) -> None:
        self._config = config
        self._started_at = started_at
        self._url_of = url_of
        self._certificate = certificate
        self._reload = reload
        self._store = store
        self._fleet = fleet
        self._workers = workers
        self._gateway = gateway
        self._pool = pool
        self._hashing = hashing
        self._usage = usage
        self._jobs = jobs
        self._survey = survey
        self._sight = sight
        self._settings_for = settings_for
        self._events = events
        self._on_first_hello: Callable[[], None] | None = on_first_hello
        self._models: dict[str, Any] = {}
        self._aliases: dict[str, str] = {}
        self._warned: set[str] = set()
        self._reads = self._newest_read = 0
        self._examiner = Examiner(pool, fleet)
        self._keys = Keys(config, config_file, pool, workers, events.publish)
        self._batches = BatchAnswers(store.paths, self._answer_later)
        self._kinds: dict[str, Callable[[Link, Message], None]] = {
            "hello": self._hello, "ensure_ready": self._ensure_ready, "evict": self._evict, "remove": self._remove,
            "examine": self._examine, "put_down": self._put_down,
            "keep_alive": self._keep_alive, "describe": self._describe, "explain": self._explain,
            "requests": self._requests, "changed": self._changed, "status": self._status, "beat": self._beat,
            "report": self._report, "metrics": page.told, "counted": page.counted,
            "events": events.told, "event": events.hear,
            "keys": self._keys.read_again, "reload": self._read_again,
            "job": self._jobs.start, "cancel": self._jobs.cancel,
            **StoreAnswers(store, self._answer_later).kinds, **StoredAnswers(self._answer_later).kinds,
            **MessageBatchAnswers(self._answer_later).kinds, **self._batches.kinds}

    # -- links -------------------------------------------------------------------------------------------

    def take(self, link: Link, message: Message) -> None:
        """Answer a message; a wrong one is refused and harms nobody else."""
        try:
            answer = self._kinds[str(message.get("kind"))]
            answer(link, message)
        except BlazarError as error:
            link.refuse(message, error)
        except KeyError as error:
            link.refuse(message, UsageRefused(f"the message {message.get('kind')!r} is unknown or lacks {error}"))
        except (TypeError, ValueError, AttributeError) as error:
            link.refuse(message, UsageRefused(f"the message {message.get('kind')!r} has a wrong field: {error}"))

    def drop(self, link: Link) -> None:
        self._jobs.drop(link)
        if self._workers.leave(link):
            log.info("gateway: worker %d has left", link.peer_pid)
            self._events.publish("gateway_ended", pid=link.peer_pid, reason="its connection has closed")

    # -- other settings ----------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """What a gateway worker that starts now is told."""
        return dict(self._config)

    def refuse_shadows(self, entries: list[dict[str, Any]]) -> None:
        """Raises ConfigRefused for an alias whose name means something in the store already."""
        alias_check.refuse_shadows(entries, self._models, self._aliases)

    def go_by(self, config: dict[str, Any]) -> None:
        """From now on these are the settings. Workers that run are told of their API keys, and of models."""
        keys = self._config["keys"]
        self._config.clear()
        self._config.update(config)
        if config["keys"] != keys:
            self._keys.reloaded(config["keys"])
        self._refresh(lambda error: None)

    # -- what the gateway sees ---------------------------------------------------------------------------

    def read_store(self) -> None:
        """Once, at boot: the models and aliases of the snapshot, and what API keys have used today."""
        self._store.tidy()
        self._batches.tidy()
        self._models, self._aliases = self._read()
        alias_check.refuse_shadows(self._config["alias"], self._models, self._aliases)
        self._compare()
        self._usage.read()
        close_database()  # SQLite closes no file of other threads while this thread has it open

    def snapshot(self) -> dict[str, Any]:
        return {"models": self._models, "aliases": self._aliases, "children": self._fleet.endpoints(),
                "workers": self._workers.sharing(), "started_at": self._started_at}

    def push(self) -> None:
        self._workers.note("snapshot", snapshot=self.snapshot())

    def _answer_seen(self, link: Link, message: Message, **fields: Any) -> None:
        """Answer once the gateway has seen what is now, so that whoever asked finds it there with the next request."""
        self.push()
        self._workers.refresh(lambda: link.answer(message, **fields))  # messages are read in their order

    def _answer_later(self, link: Link, message: Message, call: Callable[[], dict[str, Any]], changes: bool = False,
                      reads_files: bool = False) -> None:
        """Answer with what `call` gives, which runs on a thread. It may change the store, or read whole files, which
        must not keep others waiting."""
        def called(fields: Any, error: BlazarError | None) -> None:
            if error is not None:
                link.refuse(message, error)
            elif changes:
                self.refresh_store(link, message, **fields)
            else:
                link.answer(message, **fields)

        (self._hashing if reads_files else self._pool).submit(called, call)

    def refresh_store(self, link: Link, message: Message, **fields: Any) -> None:
        """Read the store again on a thread, tell the gateway, then answer with the fields."""
        def refreshed(error: BlazarError | None) -> None:
            if error is not None:
                link.refuse(message, error)
            else:
                self._answer_seen(link, message, **fields)

        self._refresh(refreshed)

    def _refresh(self, then: Callable[[BlazarError | None], None]) -> None:
        """Read the store again on a thread and tell the gateway; `then` gets the reason when that failed."""
        self._reads += 1
        number = self._reads

        def read(found: Any, error: BlazarError | None) -> None:
            if error is None and number > self._newest_read:  # two may end in the other order than they began
                self._newest_read = number
                self._tell_changes(found[0])
                self._models, self._aliases = found
                self._compare()
                self.push()
            then(error)

        self._pool.submit(read, self._read)

    def _tell_changes(self, found: dict[str, Any]) -> None:
        """Of the models that are there from now on, and no more."""
        for model in sorted(found.keys() - self._models.keys()):
            self._events.publish("model_installed", model=model)
        for model in sorted(self._models.keys() - found.keys()):
            self._events.publish("model_removed", model=model)

    def _read(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The models and aliases of the snapshot, out of the store."""
        models = {name: self._as_configured(name, model) for name, model in self._store.snapshot_models().items()}
        return models, self._store.aliases()

    def _as_configured(self, name: str, model: dict[str, Any]) -> dict[str, Any]:
        return as_configured(model, self._settings_for(name))

    def _compare(self) -> None:
        self._sight.forgive()
        self._fleet.compare({name: model["digest"] for name, model in self._models.items()})
        alias_check.warn(self._config["alias"], self._models, self._aliases, self._warned)

    # -- the kinds ---------------------------------------------------------------------------------------

    def _hello(self, link: Link, message: Message) -> None:
        link.role, link.peer_pid = str(message["role"]), int(message.get("pid") or 0)
        if link.role == "gateway":
            self._workers.join(link, link.peer_pid, message.get("leases"))
            self._events.publish("gateway_started", pid=link.peer_pid)
        more = {"certificate": self._certificate.told()} if link.role == "gateway" else {}
        link.answer(message, config=self._config, snapshot=self.snapshot(), version=blazar.__version__,
                    usage=self._usage.today(), **more)
        if link.role == "gateway":
            self._gateway.greeted(link.peer_pid)
            call, self._on_first_hello = self._on_first_hello, None
            if call is not None:
                call()

    def _ensure_ready(self, link: Link, message: Message) -> None:
        def waited(endpoint: Any, error: BlazarError | None) -> None:
            if error is not None:
                link.refuse(message, error)
            else:
                self.push()  # else a client that has its answer might not find the model among those loaded
                link.answer(message, endpoint=endpoint.to_dict())

        self._sight.ensure_ready(str(message["model"]), int(message.get("ctx") or 0), waited,
                                 is_shown=bool(message.get("shown")))

    def _evict(self, link: Link, message: Message) -> None:
        self._fleet.evict(str(message["model"]),
                          lambda evicted: self._answer_seen(link, message, evicted=evicted))

    def _examine(self, link: Link, message: Message) -> None:
        self._examiner.examine(str(message["child_id"]), bool(message.get("stalled")),
                               lambda wedged: link.answer(message, wedged=wedged))

    def _put_down(self, link: Link, message: Message) -> None:
        self._fleet.put_down(str(message["child_id"]))

    def _remove(self, link: Link, message: Message) -> None:
        model = str(message["model"])

        def removed(_: Any, error: BlazarError | None) -> None:
            if error is not None:
                link.refuse(message, error)
            else:
                self.refresh_store(link, message)

        self._fleet.evict(model, lambda _: self._pool.submit(removed, self._store.remove, model))

    def _keep_alive(self, link: Link, message: Message) -> None:
        seconds = message.get("seconds")
        self._fleet.keep(str(message["model"]), None if seconds is None else float(seconds))

    def _describe(self, link: Link, message: Message) -> None:
        def described(model: Any, error: BlazarError | None) -> None:
            if error is not None:
                link.refuse(message, error)
            else:
                link.answer(message, model=model)

        def describe() -> dict[str, Any]:
            model = self._store.describe(str(message["model"]))
            return self._as_configured(model["name"], model)

        self._pool.submit(described, describe)

    def _explain(self, link: Link, message: Message) -> None:
        model = str(message["model"])

        def surveyed(found: Any, error: BlazarError | None) -> None:
            if error is not None:
                link.refuse(message, error)
            else:
                self._fleet.explain(model, found, lambda told: link.answer(message, explained=told))

        prepared = self._fleet.prepared(model)
        if prepared is not None:
            link.answer(message, explained=of_child(model, prepared))
        else:
            asked = {name: int(value) for name, value in (message.get("settings") or {}).items() if name in ASKED}
            self._pool.submit(surveyed, self._survey, model, asked)

    def _changed(self, link: Link, message: Message) -> None:
        self.refresh_store(link, message)

    def _status(self, link: Link, message: Message) -> None:
        url = self._url_of(self._certificate.scheme)
        link.answer(message, pid=os.getpid(), url=url, settings=str(self._keys.file),
                    children=self._fleet.describe(),
                    gateway={"pid": self._gateway.pid, "workers": [worker.pid for worker in self._workers.all()]})

    def _requests(self, link: Link, message: Message) -> None:
        finished, shown = int(message["finished"]), scrubber(self._config["pii_scrub"])
        self._workers.gather("requests", lambda parts: link.answer(message, **gathered(parts, finished, shown)),
                             key=message["key"], finished=finished, cancel=message["cancel"])

    def _read_again(self, link: Link, message: Message) -> None:
        def told(report: Report | None, error: BlazarError | None) -> None:
            if error is not None or report is None:
                link.refuse(message, error or ShuttingDown())
            else:
                link.answer(message, **report.as_dict())

        self._reload(told)

    def _beat(self, link: Link, message: Message) -> None:
        self._workers.beat(link)

    def _report(self, link: Link, message: Message) -> None:
        before = self._workers.sharing()
        self._workers.report(link, message["children"])
        if self._workers.sharing() != before:
            self.push()
        rows = message.get("usage") or []
        self._usage.add(rows)
        if rows:
            self._workers.tell_others(link, "spent", usage=rows)


def gathered(parts: list[Message], finished: int, shown: Callable[[str], str]) -> Message:
    """What several gateway workers tell of their requests, as one list: the oldest that runs first, then the `finished`
    that ended last. `shown` makes of what clients chose what others may see."""
    rows = [{**row, "client": shown(row["client"]), "id": shown(row["id"])}
            for part in parts for row in part["requests"]]
    ended = [{**row, "asked": shown(row["asked"]), "id": shown(row["id"])}
             for part in parts for row in part["finished"]]
    return {"requests": sorted(rows, key=lambda row: -row["age_secs"]),
            "finished": sorted(ended, key=lambda row: row["time"], reverse=True)[:finished],
            "cancelled": sum(part["cancelled"] for part in parts)}
