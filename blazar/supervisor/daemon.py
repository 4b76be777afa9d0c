"""`serve`: start order, signals, and the orderly stop.

Start: lock, bind, sweep, database, control socket, gateway; the daemon counts as up when a gateway worker has said
hello. Stop: the gateway first, since it holds the clients; then the children. A second signal ends everything at once.
"""

import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from blazar import __version__
from blazar.config.config import Config
from blazar.config.effective import effective
from blazar.config.registry import SETTINGS
from blazar.download.throttle import bucket_of
from blazar.engines.install.retention import pins
from blazar.engines.llamacpp import LlamaCpp
from blazar.errors import BlazarError, ConfigRefused
from blazar.hardware.census import Census, census
from blazar.paths import Paths
from blazar.planner.choice import chooser
from blazar.store.locks import told_in_words
from blazar.store.pull import Means as PullMeans
from blazar.store.pull import means_of
from blazar.store.store import Store
from blazar.supervisor import banks
from blazar.supervisor.answers import Answers
from blazar.supervisor.certificate import Certificate
from blazar.supervisor.contexts import Contexts
from blazar.supervisor.engine_check import EngineCheck
from blazar.supervisor.events import Events
from blazar.supervisor.fleet import Fleet
from blazar.supervisor.gateway import LAUNCHER, LONGEST_STREAM, Gateway
from blazar.supervisor.in_force import InForce, Takeover
from blazar.supervisor.jobs import MOST, Jobs
from blazar.supervisor.lanes import Lanes
from blazar.supervisor.listener import listen, take_lock, url_of
from blazar.supervisor.loader import Loader
from blazar.supervisor.loop import Loop
from blazar.supervisor.means import Means
from blazar.supervisor.metrics_page import MetricsPage
from blazar.supervisor.notify import notify, stopping, watchdog_pause
from blazar.supervisor.orphans import sweep
from blazar.supervisor.pool import Pool
from blazar.supervisor.preload import Prediction, Preload
from blazar.supervisor.relaunch import Relaunch
from blazar.supervisor.reload import Reload, Waiter
from blazar.supervisor.router import Router
from blazar.supervisor.server import ControlServer
from blazar.supervisor.sessions import SAVE_LIMIT
from blazar.supervisor.sight import Sight
from blazar.supervisor.tuner import Tuner
from blazar.supervisor.usage import Usage
from blazar.supervisor.workers import Workers
from blazar.telemetry import log as logs
from blazar.telemetry.events import Ring
from blazar.telemetry.redact import scrubber
from blazar.telemetry.supervisor_metrics import SupervisorMetrics

log = logging.getLogger(__name__)

STORE_THREADS = 4
"""Questions about the store that are answered at a time."""
HASHING_THREADS = 2
"""Files of clients that are checked at a time."""
STOP_MARGIN = 15.0
"""Seconds that a stop may take beyond shutdown_grace_secs."""


def serve(config: Config, paths: Paths, launcher: Sequence[str] = LAUNCHER,
          look: Callable[[], Census] = census, reread: Callable[[], Config] | None = None) -> int:
    """Run the daemon until it is told to stop; 0, or 1 when the gateway does not start.

    `launcher` is the command that starts the gateway, `look` tells of the machine's memory; `reread` gives the
    settings anew, as their file says them then, or raises ConfigRefused. Raises AlreadyRunning,
    BindConflict, BindRefused, CertificateRefused, SchemaNewer, DatabaseUnusable and StoreUnwritable before anything is
    started.
    """
    _raise_file_limit()
    with told_in_words(paths.data_dir):
        paths.ensure()
        lock = take_lock(paths)
        logs.set_up(paths.daemon_log, config.log_level or "info")
    try:
        return Daemon(config, paths, launcher, look, reread or _no_file).run()
    finally:
        os.close(lock)


class Daemon:
    def __init__(self, config: Config, paths: Paths, launcher: Sequence[str], look: Callable[[], Census],
                 reread: Callable[[], Config]) -> None:
        self._paths = paths
        self._signals = 0
        self._exit_code = 0
        self._loop = Loop()
        pool = Pool(self._loop)
        workers = Workers(self._loop)
        self._certificate = Certificate(self._loop, pool, workers, config.tls_cert, config.tls_key)
        self._listener = listen(config.host, config.port, paths.data_dir_id)
        remaining = sweep(paths)  # after the bind, which a daemon that has lost its data dir to us would refuse
        if remaining:
            log.error("pids %s of an earlier run do not end", remaining)
        banks.tidy(paths)
        store = Store(paths, holds_daemon_lock=True)
        started_at, metrics = time.time(), SupervisorMetrics()
        ring = Ring(f"{int(started_at * 1000):x}", self._shown)
        self._events = Events(ring, workers, metrics)
        tuned: dict[str, dict[str, Any]] = {}
        shown: set[str] = set()
        in_force = self._in_force = InForce(config, lambda settings: Loader(
            store, paths, [LlamaCpp(SETTINGS.values())], partial(effective, settings),
            settings.runtime.get("BLAZAR_ENGINE_PATH"), settings.model_load_timeout_secs, *child_link(settings), tuned,
            router_of(settings, paths), shown))
        means = Means(self._loop, pool, paths, in_force.weigh, look, self._changed,
                      lambda digests: forget(in_force.config, paths, digests), self._events.publish)
        self._fleet = Fleet(means, workers, max_loaded=config.max_loaded_models,
                            keep_alive=keep_alive_of(config), router=config.router, shown=shown)
        self._tuner = Tuner(self._loop, pool, workers, self._fleet, config, in_force.loses_nothing, tuned)
        sight = Sight(self._loop, pool, self._fleet, Contexts(self._fleet, tuned), in_force.weigh, look, shown)
        self._gateway = Gateway(self._loop, paths, workers, self._listener, float(config.shutdown_grace_secs),
                                self._give_up, launcher)
        self._usage = Usage(pool, self._loop.later)
        self._lanes = Lanes(self._loop, pool, paths, config.capability_registry_url or "", config.fork_retire_days,
                            pins(config))
        self._jobs = Jobs(Pool(self._loop, MOST), store, pulling(config),
                          lambda link, message, model: self._answers.refresh_store(link, message, model=model),
                          self._events.publish)
        metrics.models.read = lambda: len(self._answers.snapshot()["models"])
        page = MetricsPage(self._loop, pool, workers, self._fleet, metrics, look, self._tuner.governors, started_at)
        self._answers = Answers(config.as_dict(), config.path, started_at, partial(url_of, self._listener),
                                store=store, certificate=self._certificate,
                                reload=self._asked_to_reload, fleet=self._fleet,
                                workers=workers, gateway=self._gateway, pool=Pool(self._loop, STORE_THREADS),
                                hashing=Pool(self._loop, HASHING_THREADS), usage=self._usage, jobs=self._jobs,
                                survey=in_force.survey, sight=sight,
                                settings_for=in_force.settings_for, events=self._events, page=page,
                                on_first_hello=self._up)
        self._server = ControlServer(paths.control_socket, self._loop, self._answers.take, self._answers.drop)
        self._gateway.longest_stream = longest_stream(config)
        self._answers.read_store()  # after the control socket: a pull that ends from now on can tell us
        self._change_posted = False
        self._engine_check = EngineCheck(self._loop, pool, paths, config)
        self._preload = Preload(config.preload, store, pool, self._fleet)
        self._prediction = Prediction(self._loop, self._fleet)
        relaunch = Relaunch(self._loop, pool, self._fleet, lambda: in_force.loader)
        takeover = Takeover(in_force, self._answers, self._gateway, self._certificate, relaunch, self._take)
        self._reload = Reload(pool, reread, takeover.apply, self._events.publish)

    def run(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._loop.post(self._asked_to_stop))
        signal.signal(signal.SIGHUP, lambda *_: self._loop.post(self._reload.by_signal))
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # inherited as ignored, the end of a child could not be seen
        self._loop.post(self._gateway.start)
        self._loop.post(self._gateway.watch)
        self._loop.post(self._lanes.watch)
        self._loop.post(self._tuner.watch)
        self._loop.post(self._engine_check.plan)
        self._loop.post(self._preload.go_on)
        self._loop.post(self._prediction.turn, self._in_force.config.predictive_preload)
        self._loop.post(self._certificate.watch)
        try:
            self._loop.run()
        finally:
            self._gateway.kill()
            self._fleet.kill()
            self._server.close()
            self._note_usage()
            sweep(self._paths)
        return self._exit_code

    def _note_usage(self) -> None:
        try:
            self._usage.flush()
        except BlazarError as error:
            log.error("the last use of API keys could not be noted: %s", error)

    def _up(self) -> None:
        url = url_of(self._listener, self._certificate.scheme)
        self._events.publish("daemon_started", version=__version__)
        log.info("listening on %s", url)
        notify(f"READY=1\nSTATUS=listening on {url}")
        self._show_life(watchdog_pause(os.environ, os.getpid()))
        with suppress(OSError):  # whoever reads our output may be gone
            print(f"blazar: listening on {url}", flush=True)

    def _show_life(self, pause: float | None) -> None:
        """From the run loop: when that hangs, systemd starts the daemon anew."""
        if pause is not None:
            notify("WATCHDOG=1")
            self._loop.later(pause, self._show_life, pause)

    def _take(self, config: Config) -> None:
        """From now on these are the settings of the supervisor's own parts."""
        logs.set_level(config.log_level or "info")
        self._gateway.grace, self._gateway.longest_stream = float(config.shutdown_grace_secs), longest_stream(config)
        self._fleet.take(config.max_loaded_models, keep_alive_of(config))
        self._tuner.take(config)
        self._lanes.take(config.capability_registry_url or "", config.fork_retire_days, pins(config))
        self._engine_check.take(config)
        self._jobs.take(pulling(config))
        self._preload.take(config.preload)
        self._prediction.turn(config.predictive_preload)

    def _shown(self, text: str) -> str:
        """A text of an event as others may see it."""
        return scrubber(self._in_force.config.pii_scrub)(text)

    def _changed(self) -> None:
        """Several changes in one go make one push."""
        if not self._change_posted:
            self._change_posted = True
            self._loop.post(self._settle)

    def _settle(self) -> None:
        self._change_posted = False
        self._fleet.schedule()
        self._answers.push()

    def _asked_to_reload(self, waiter: Waiter) -> None:
        self._reload.ask(waiter)

    def _asked_to_stop(self) -> None:
        self._signals += 1
        if self._signals > 1:
            log.warning("asked again to stop: ending everything at once")
            self._loop.end()
            return
        grace = self._gateway.grace
        log.info("stopping: running answers have %g s", grace)
        self._events.publish("daemon_stopping", grace_secs=grace)
        notify(stopping(grace + STOP_MARGIN))
        self._reload.end()
        self._listener.close()
        self._fleet.refuse_loads()
        self._jobs.end()
        self._gateway.stop(lambda: self._fleet.stop(self._loop.end, min(SAVE_LIMIT, grace)))

    def _give_up(self, reason: str) -> None:
        print(f"blazar: {reason}", file=sys.stderr, flush=True)
        self._exit_code = BlazarError.exit_code
        self._fleet.stop(self._loop.end)


def _no_file() -> Config:
    raise ConfigRefused(where="this daemon", problem="it was started without a configuration file",
                        remedy="start it anew")


def keep_alive_of(config: Config) -> float:
    """Seconds that a model stays after its last request; negative = for ever."""
    return float(config.idle_timeout_secs or -1)


def longest_stream(config: Config) -> float:
    """Seconds that streams have in a gateway that was replaced."""
    return float(config.server_timeout_secs or LONGEST_STREAM)


def pulling(config: Config) -> PullMeans:
    """How models are downloaded for clients."""
    return means_of(config, chooser(census), bucket_of(config.download_speed_limit_mb), local=False)


def forget(config: Config, paths: Paths, digests: Mapping[str, str]) -> None:
    """Delete saved slots that are of no use any more: all of them when none are to be kept."""
    keeps = config.sessions and config.session_bank
    try:
        banks.sweep(paths, digests if keeps else {}, float(config.session_keep_secs))
    except OSError as error:
        log.warning("saved conversations could not be looked through: %s", error)


def child_link(config: Config) -> tuple[bool, bool]:
    """Whether children get a secret, and whether they listen on Unix sockets, which only their owner can reach."""
    unix = config.child_transport == "unix"
    return (not unix if config.child_auth is None else config.child_auth), unix


def router_of(config: Config, paths: Paths) -> Router | None:
    """What makes the router child, where one serves all models. Its own children listen on ports whatever it does
    itself, so it has a secret unless there shall be none."""
    if not config.router:
        return None
    return Router(paths, config.router_max_models, config.child_auth is not False, config.child_transport == "unix",
                  config.model_load_timeout_secs)


def _raise_file_limit() -> None:
    """Every connection costs two descriptors; the soft limit is often only 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
