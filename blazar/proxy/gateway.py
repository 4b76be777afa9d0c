"""`Gateway`: everything that lives as long as the gateway worker, built once and handed to whoever needs it."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from blazar.config.config import Config
from blazar.errors import BlazarError, ShuttingDown
from blazar.paths import Paths
from blazar.proxy import greens
from blazar.proxy.aliases import aliases_of
from blazar.proxy.auth import KeyRing
from blazar.proxy.batches.anthropic_source import AnthropicBatches
from blazar.proxy.batches.openai_source import OpenAIBatches
from blazar.proxy.batches.runner import Runner
from blazar.proxy.cors import Cors
from blazar.proxy.dialects.anthropic import AnthropicDialect
from blazar.proxy.dialects.dialect import Dialect
from blazar.proxy.dialects.ollama import OllamaDialect
from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.dialects.responses import ResponsesDialect
from blazar.proxy.directory import Directory
from blazar.proxy.dispatch import Dispatch
from blazar.proxy.forwarded import Proxies
from blazar.proxy.going_on import GoingOn
from blazar.proxy.heartbeat import Heartbeat
from blazar.proxy.hosts import HostCheck
from blazar.proxy.json_scan import BodyReader
from blazar.proxy.ledger import Ledger
from blazar.proxy.likeness import Likeness
from blazar.proxy.listeners import Listeners
from blazar.proxy.notable import Notable
from blazar.proxy.parking import Parking
from blazar.proxy.pipeline import Forward, Stage, Step, compose
from blazar.proxy.preset import Preset
from blazar.proxy.readiness import Readiness
from blazar.proxy.routed import RoutedDispatch
from blazar.proxy.stages.admission import Admission
from blazar.proxy.stages.auth import Auth
from blazar.proxy.stages.capability import Capability
from blazar.proxy.stages.charge import Charge
from blazar.proxy.stages.knobs import knobs
from blazar.proxy.stages.lease import Lease
from blazar.proxy.stages.media import Media
from blazar.proxy.stages.name import Name
from blazar.proxy.stages.preflight import Preflight
from blazar.proxy.stages.quota import Quota
from blazar.proxy.stages.resolve import Resolve
from blazar.proxy.stages.retry import Retry
from blazar.proxy.stages.semantic_cache import SemanticCache
from blazar.proxy.stages.singleflight import SingleFlight
from blazar.proxy.stages.structure import Structure
from blazar.proxy.stages.trace import Trace
from blazar.proxy.supervisor import Supervisor
from blazar.proxy.tidying import Tidying
from blazar.proxy.warden import Warden
from blazar.proxy.wire.pool import Pool
from blazar.proxy.writing import Writing
from blazar.telemetry.audit import AuditLog
from blazar.telemetry.metrics import Metrics
from blazar.tls import Pair, read_pair

TICK: Final = 1.0
"""Seconds between beats, reports and sweeps."""
NOTED_WITHIN: Final = 0.02
"""Seconds after its end within which a request is counted and its audit line written."""
LONGEST_LOAD: Final = 600.0
"""Seconds that an engine may take to load, where `model_load_timeout_secs` does not say."""

log = logging.getLogger("blazar.proxy")


class Gateway:
    """Directory, ledger, pool, keys, dialects, stages, counts. `connect` is the way to one with a supervisor."""

    def __init__(self, config: Config, paths: Paths, directory: Directory, ledger: Ledger,
                 supervisor: Supervisor) -> None:
        self.directory = directory
        self.ledger = ledger
        self.supervisor = supervisor
        self._tls = (config.tls_cert, config.tls_key) if config.tls_cert else None
        directory.presets = aliases_of(config.alias)
        self.keys = KeyRing(config.keys, directory.resolve_model)
        ledger.accounts.open(self.keys.limits())
        supervisor.on_keys = self._take_keys
        self.hosts = HostCheck(config)
        self.cors = Cors(config)
        self.metrics = Metrics()
        self.metrics.in_flight.read = ledger.under_way
        self.listeners = Listeners()
        self._notable = Notable(self.metrics, supervisor.publish)
        supervisor.counts = lambda: [family.plain() for family in self.metrics.families()]
        supervisor.on_event, supervisor.on_lost = self.listeners.hear, self.listeners.end
        self.metrics.listeners.read = lambda: len(self.listeners)
        self.paths = paths
        self.log_level = config.log_level or "info"
        self.audit = AuditLog(paths.audit_log) if config.audit_log else None
        self.late_chunking_max = config.late_chunking_max_tokens
        self.max_body = config.max_body_mb << 20
        self.proxies = Proxies(config.trusted_proxies)
        self.draining = False
        """Set by the worker when it stops: answers say `Connection: close` from then on."""
        self.write_timeout = float(config.client_write_timeout_secs)
        self.pool = Pool()
        self.writing = Writing()
        self.background = Runner([OpenAIBatches(supervisor, paths, self.max_body), AnthropicBatches(supervisor)],
                                 directory, ledger, paths.run / "batches.lock", lambda: self.draining)
        self.pace = greens.Pace()
        """For whatever takes long."""
        reader = BodyReader(config.json_scan_over_kb << 10, self.pace)
        self.dialects: dict[str, Dialect] = {dialect.name: dialect for dialect in (
            OpenAIDialect(reader, config.buffered_via_stream), OllamaDialect(reader), AnthropicDialect(reader),
            ResponsesDialect(reader))}
        self.dispatch = self._dispatch(config, reader)
        self._heartbeat = Heartbeat(config.sse_ping_interval)
        self._tidying = Tidying()
        self._warden = Warden(ledger, directory, supervisor, self.metrics,
                              float(config.sentinel_stall_secs) if config.sentinel else 0.0)
        patience = float(config.queue_timeout_secs)
        self.parking = Parking(config.max_queued, patience, self.keys.lightest, ledger.now, self.metrics)
        self.metrics.parked.read = self.parking.waiting
        ready = Readiness(supervisor, directory, ledger, self.parking,
                          patience + (config.model_load_timeout_secs or LONGEST_LOAD), self.metrics)
        self._trace = Trace(ledger, self.metrics, self.audit)
        self.metrics.catch_up = ledger.finished.catch_up = self._trace.settle
        self.pool.meanwhile = self._trace.meanwhile
        self._answering: dict[tuple[frozenset[str], str], Forward] = {}
        self._stages: dict[str, Stage | Step] = {
            "trace": self._trace, "name": Name(directory, Preset(reader), config),
            "auth": Auth(self.keys),
            "quota": Quota(ledger.accounts, self.metrics), "capability": Capability(directory),
            "media": Media(directory, reader, self.pace), "knobs": knobs,
            "structure": Structure(config, reader, self.pace),
            "semantic_cache": SemanticCache(
                config.semantic_cache, Likeness(directory, self.pipeline, self.dispatch.fetch), reader, self.metrics,
                lambda model: directory.models[model]["digest"], ledger.now, self.pace),
            "singleflight": SingleFlight(config.singleflight, self.metrics),
            "retry": Retry(directory, self.metrics, self._warden),
            "charge": Charge(ledger.accounts, self.metrics, reader),
            "resolve": Resolve(directory, ledger, config),
            "preflight": Preflight(ready, self.dispatch.fetch, config.prompt_preflight),
            "lease": Lease(ready), "admission": Admission(ledger, ready, self.parking, self.metrics)}

    def _dispatch(self, config: Config, reader: BodyReader) -> Dispatch:
        limit = config.child_header_timeout_secs or None
        if config.router:
            return RoutedDispatch(self.pool, limit, self.metrics, reader)
        return Dispatch(self.pool, limit, self.metrics)

    @classmethod
    def connect(cls, control: Path, fallback: Callable[[], Config] | None = None) -> "Gateway":
        """A gateway with the settings of the supervisor at `control`.

        Without a supervisor the settings are those of `fallback`, and the connection is tried again for ever; without
        a fallback SupervisorGone is raised.
        """
        directory, ledger = Directory(), Ledger()
        supervisor = Supervisor(control, directory, ledger)
        try:
            config = Config.from_dict(supervisor.start())
        except (BlazarError, OSError):
            if fallback is None:
                raise
            supervisor.keep_trying()
            config = fallback()
        return cls(config, Paths.around(control), directory, ledger, supervisor)

    def _take_keys(self, entries: list[dict[str, Any]]) -> None:
        """From now on these are the API keys; requests under way go on."""
        self.keys.replace(entries)
        self.ledger.accounts.open(self.keys.limits())
        self.hosts = self.hosts.once(self.keys.active)
        self.background.rested()

    def pipeline(self, names: frozenset[str], last: Forward) -> Forward:
        """The named stages around `last`."""
        return compose(names, self._stages, last)

    def answering(self, names: frozenset[str], operation: str = "") -> Forward:
        """The named stages around what sends such an operation, strung together once and not for each request."""
        found = self._answering.get((names, operation))
        if found is None:
            send = self.dispatch.send
            last = GoingOn(self.dispatch.fetch, send).__call__ if operation == "generate" else send
            found = self._answering[names, operation] = self.pipeline(names, last)
        return found

    def tls(self) -> Any:
        """The ssl.SSLContext with which the settings want clients received; None for plain HTTP.

        Raises CertificateRefused.
        """
        if self._tls is None:
            return None
        told = self.supervisor.certificate
        return (read_pair(*self._tls) if told is None else Pair(*self._tls, **told)).context()

    @property
    def scheme(self) -> str:
        """That of the URLs which clients use, where no proxy stands before this."""
        return "http" if self._tls is None else "https"

    def start(self) -> "Gateway":
        """Begin to beat, report and sweep, each second, and to note what has ended."""
        self._trace.soon = greens.soon(self._trace.settle, NOTED_WITHIN)
        greens.spawn(self._tick_for_ever)
        return self

    def note(self) -> None:
        """Count what has ended, and write its audit lines, now: this process is about to end."""
        self._trace.settle()

    def end_exchanges(self) -> None:
        """End what is still under way, each with an error in its own dialect; nothing new is let in."""
        self.ledger.end_all(ShuttingDown())

    def _tick_for_ever(self) -> None:
        while True:
            greens.sleep(TICK)
            try:
                living = self.directory.child_ids()
                self.pool.sweep(living)
                self.ledger.forget(living)
                self.parking.refresh(self.directory.endpoints.values(), self.directory.workers, self.ledger.drains)
                self._heartbeat.beat(self.ledger.now(), self.ledger.exchanges())
                self._warden.look(self.ledger.now(), self.ledger.exchanges())
                if self.audit is not None:
                    self.audit.tick()
                self._notable.tick()
                if self.draining:
                    self.listeners.end(for_good=True)
                self.supervisor.tick()
                self._tidying.look(self.ledger.now(), self.ledger.last_use())
            except Exception:
                log.exception("the gateway's tick failed")
