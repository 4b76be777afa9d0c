"""Reference → installed file and facts → lane and program → command: everything a load needs, on a thread."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from blazar.engines import forks, rpc
from blazar.engines.builds import Build, Builds, uses_cards
from blazar.engines.lane import Lane, Launch, engine_environment
from blazar.engines.manifest import manifest_of
from blazar.engines.program import Program
from blazar.engines.routing import Routing, find_program, rates_of
from blazar.errors import LaunchFileMissing, LoadFailed
from blazar.hardware.census import census
from blazar.models.catalog import Catalog
from blazar.models.measurement import Measurement
from blazar.paths import Paths
from blazar.planner.installed import plan_installed, plan_load, refused
from blazar.planner.machine import Machine, Worker, machine_of
from blazar.planner.plan import Plan, Refusal
from blazar.store.assembled import assemble
from blazar.store.installed import Installed
from blazar.store.store import Store
from blazar.supervisor.child import Prepared
from blazar.supervisor.explained import told
from blazar.supervisor.router import Router
from blazar.supervisor.spawn import secret_path, socket_path
from blazar.transport import ROUTER, model_at

log = logging.getLogger(__name__)

NO_ENGINE = ("no engine here reads {format} files; install the same model as a GGUF file instead, which many "
             "publishers offer beside it, or convert it with llama.cpp's convert_hf_to_gguf.py")


@dataclass(frozen=True)
class Chosen:
    """What serves a model: everything that is known before a plan."""

    installed: Installed
    facts: Mapping[str, Any]
    lane: Lane
    settings: Mapping[str, Any]
    program: Program
    uses_cards: bool
    lanes: Sequence[Mapping[str, Any]]
    """What the catalog offers."""


class Loader:
    """`settings_for` gives the effective settings of a model, by its name and the settings given with it;
    `load_limit` is in seconds, None = the lane's own; `unix` has children listen on sockets of their own; `router`
    makes the child that serves all models, where one does."""

    def __init__(self, store: Store, paths: Paths, lanes: Sequence[Lane],
                 settings_for: Callable[[str, Mapping[str, Any]], Mapping[str, Any]], engine_path: str | None,
                 load_limit: float | None, child_auth: bool, unix: bool = False, router: Router | None = None) -> None:
        self._store = store
        self._paths = paths
        self._builds = Builds(paths, holds_daemon_lock=True)
        self._lanes = lanes
        self._settings_for = settings_for
        self._engine_path = engine_path
        self._load_limit = load_limit
        self._child_auth = child_auth
        self._unix = unix
        self._router = router

    def prepare(self, place: str) -> Prepared:
        """Runs on a thread. Raises ModelNotFound, ModelFileRefused, LoadFailed and its kin."""
        if place == ROUTER and self._router is not None:
            return self._prepare_router(self._router)
        model = model_at(place)
        chosen = self._choose(model)
        check_files(model, chosen.settings)
        workers = rpc.refuse_gone(model, rpc.split_addresses(chosen.settings.get("rpc_servers") or ""))
        socket = socket_path(self._paths, place) if self._unix else None
        plan = plan_load(chosen.installed, chosen.settings, machine_with(workers, chosen.uses_cards, now=True))
        return self._prepared(model, chosen, plan, secret_path(self._paths, place) if self._child_auth else None,
                              socket)

    def _prepared(self, model: str, chosen: "Chosen", plan: Plan, secret: Path | None, socket: Path | None) -> Prepared:
        installed, lane, facts = chosen.installed, chosen.lane, chosen.facts
        settings = {**chosen.settings, **plan.settings}
        found = assemble(self._paths, installed)
        launch = Launch(model=model, file=found.file, facts=facts, settings=settings, program=chosen.program,
                        secret_file=secret, companions=found.companions, template=found.template,
                        manifest=manifest_of(chosen.program, self._paths.manifests, extra=engine_environment(settings)),
                        plan=plan)
        command = lane.command(launch)
        for sentence in (*plan.warnings, *command.skipped):
            log.warning("%s: %s", model, sentence)
        return Prepared(launch, lane, command, installed.size, self._load_limit or lane.load_timeout,
                        socket, forks.offered(facts["architecture"], chosen.lanes))

    def _prepare_router(self, router: Router) -> Prepared:
        """The child that serves every model of the main engine."""
        models = self._store.snapshot_models()
        builds, configured = self._builds.every(), self._settings_for(ROUTER, {}).get("engine_routing") or {}
        program = find_program(ROUTER, self._engine_path, os.environ, builds,
                               Routing(None, configured.get("mode") or "auto", configured.get("policy")))

        @cache
        def machine(rpc_servers: str, cards: bool) -> Machine:
            return machine_with(rpc.workers_at(rpc.split_addresses(rpc_servers)), cards)

        def section(model: str) -> Prepared:
            chosen = self._choose(model)
            if chosen.program.argv != program.argv:
                raise LoadFailed(f"the router is {program.tag}, and {chosen.program.tag} serves this model")
            check_files(model, chosen.settings)
            plan = plan_installed(chosen.installed, chosen.settings,
                                  machine(chosen.settings.get("rpc_servers") or "", chosen.uses_cards))
            if isinstance(plan, Refusal):
                raise refused(model, plan)
            return self._prepared(model, chosen, plan, None, None)

        served = [name for name, model in models.items() if any(lane.accepts(model) for lane in self._lanes)]
        return router.prepare(program, {name: model["digest"] for name, model in models.items()}, served, section)

    def explain(self, model: str) -> dict[str, Any]:
        """How the model would be loaded with nothing beside it, or why not. Runs on a thread; raises as `prepare`."""
        chosen = self._choose(model)
        workers = rpc.workers_at(rpc.split_addresses(chosen.settings.get("rpc_servers") or ""))
        machine = machine_with(workers, chosen.uses_cards)
        return told(model, chosen.program, plan_installed(chosen.installed, chosen.settings, machine))

    def _choose(self, model: str) -> "Chosen":
        installed = self._store.get(model)
        facts = installed.summary()
        lane = next((lane for lane in self._lanes if lane.accepts(facts)), None)
        if lane is None:
            raise LoadFailed(model=model, reason=NO_ENGINE.format(format=facts["format"]), output="")
        settings = self._settings_for(model, installed.preset.settings())
        lanes, builds = Catalog.every(), self._builds.every()
        program = self._program(model, lane.kind, settings, facts, lanes, builds)
        return Chosen(installed, facts, lane, settings, program, uses_cards(program, builds), lanes)

    def _program(self, model: str, kind: str, settings: Mapping[str, Any], facts: Mapping[str, Any],
                 lanes: Sequence[Mapping[str, Any]], builds: list[Build]) -> Program:
        """A fork for its own architectures, unless an engine was named; else what routing says."""
        fork = None if self._engine_path else forks.choose(facts["architecture"], settings.get("engine"), lanes, builds)
        if fork is not None:
            return fork.program
        configured = settings.get("engine_routing") or {}
        routing = Routing(settings.get("engine"), configured.get("mode") or "auto", configured.get("policy"),
                          rates_of(Measurement.of(facts["digest"], "bench")))
        return find_program(model, self._engine_path, os.environ, builds, routing)


def machine_with(workers: Sequence[rpc.Worker], cards: bool, now: bool = False) -> Machine:
    """This machine and the devices of its workers. One that serves somebody else tells no memory."""
    devices = [Worker(worker.address, total, free) for worker in workers for free, total in worker.devices]
    silent = [worker.address for worker in workers if not worker.devices]
    return machine_of(census(), devices, cards, now, silent)


def check_files(model: str, settings: Mapping[str, Any]) -> None:
    """Raise LaunchFileMissing when one of the files that settings name for the engine is not there."""
    named = {name: settings.get(name) for name in ("mmproj", "chat_template_file", "mcp_servers_config")}
    named |= {f"loras[{place}].path": lora["path"] for place, lora in enumerate(settings.get("loras") or ())}
    for what, path in named.items():
        if path and not os.path.isfile(path):
            raise LaunchFileMissing(model=model, path=path, what=what)
