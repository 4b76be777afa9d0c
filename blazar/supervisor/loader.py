"""Reference → installed file and facts → lane and program → command: everything a load needs, on a thread."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
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
from blazar.planner.installed import plan_installed, plan_load
from blazar.planner.machine import Machine, Worker, machine_of
from blazar.store.assembled import assemble
from blazar.store.installed import Installed
from blazar.store.store import Store
from blazar.supervisor.bank_origin import bank_of
from blazar.supervisor.banks import bank_folder
from blazar.supervisor.child import Prepared
from blazar.supervisor.explained import told
from blazar.supervisor.spawn import secret_path, socket_path
from blazar.transport import model_at

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
    `load_limit` is in seconds, None = the lane's own; `unix` has children listen on sockets of their own."""

    def __init__(self, store: Store, paths: Paths, lanes: Sequence[Lane],
                 settings_for: Callable[[str, Mapping[str, Any]], Mapping[str, Any]], engine_path: str | None,
                 load_limit: float | None, child_auth: bool, unix: bool = False) -> None:
        self._store = store
        self._paths = paths
        self._builds = Builds(paths, holds_daemon_lock=True)
        self._lanes = lanes
        self._settings_for = settings_for
        self._engine_path = engine_path
        self._load_limit = load_limit
        self._child_auth = child_auth
        self._unix = unix

    def prepare(self, place: str) -> Prepared:
        """Runs on a thread. Raises ModelNotFound, ModelFileRefused, LoadFailed and its kin."""
        model = model_at(place)
        chosen = self._choose(model)
        installed, lane, facts = chosen.installed, chosen.lane, chosen.facts
        check_files(model, chosen.settings)
        workers = rpc.refuse_gone(model, rpc.split_addresses(chosen.settings.get("rpc_servers") or ""))
        socket = socket_path(self._paths, place) if self._unix else None
        plan = plan_load(installed, chosen.settings, machine_with(workers, chosen.uses_cards, now=True))
        settings = {**chosen.settings, **plan.settings}
        found = assemble(self._paths, installed)
        folder = self._session_folder(model, settings, facts)
        launch = Launch(model=model, file=found.file, facts=facts, settings=settings, program=chosen.program,
                        secret_file=secret_path(self._paths, place) if self._child_auth else None,
                        companions=found.companions, template=found.template, sessions=folder,
                        manifest=manifest_of(chosen.program, self._paths.manifests, extra=engine_environment(settings)),
                        plan=plan)
        command = lane.command(launch)
        for sentence in (*plan.warnings, *command.skipped):
            log.warning("%s: %s", model, sentence)
        return Prepared(launch, lane, command, installed.size, self._load_limit or lane.load_timeout,
                        socket, forks.offered(facts["architecture"], chosen.lanes),
                        tuple(piece.path for piece in installed.pieces if piece.role in ("model", "part")),
                        bank_of(place, launch, command))

    def explain(self, model: str) -> dict[str, Any]:
        """How the model would be loaded with nothing beside it, or why not. Runs on a thread; raises as `prepare`."""
        chosen = self._choose(model)
        workers = rpc.workers_at(rpc.split_addresses(chosen.settings.get("rpc_servers") or ""))
        machine = machine_with(workers, chosen.uses_cards)
        return told(model, chosen.program, plan_installed(chosen.installed, chosen.settings, machine))

    def _session_folder(self, model: str, settings: Mapping[str, Any], facts: Mapping[str, Any]) -> Path | None:
        """Where the model's engine may keep its slots; models that only make vectors have nothing to keep."""
        if not settings.get("sessions") or "embedding" in facts.get("capabilities", ()):
            return None
        folder = bank_folder(self._paths, model)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            log.warning("%s: its conversations will not be saved: %s", model, error)
            return None
        return folder

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
