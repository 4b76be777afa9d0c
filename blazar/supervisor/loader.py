"""Reference → installed file and facts → lane and program → need; with a plan → command. On threads."""

import logging
import os
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from blazar.engines import forks, rpc
from blazar.engines.builds import Build, Builds, uses_cards
from blazar.engines.lane import Lane, Launch, engine_environment
from blazar.engines.llama_speculation import types_of
from blazar.engines.manifest import Manifest, manifest_of
from blazar.engines.program import Program
from blazar.engines.router import fingerprint
from blazar.engines.routing import Routing, find_program, rates_of
from blazar.errors import BlazarError, LaunchFileMissing, LoadFailed
from blazar.hardware.census import Census
from blazar.models.catalog import Catalog
from blazar.models.measurement import Measurement
from blazar.paths import Paths
from blazar.planner.installed import need_of, refused
from blazar.planner.many import ManyNeeds, ManyPlans
from blazar.planner.need import Need, Offer
from blazar.planner.plan import Plan, Refusal
from blazar.planner.projector import for_load
from blazar.planner.room import Room
from blazar.store import speccache
from blazar.store.assembled import Assembled, assemble
from blazar.store.installed import Installed
from blazar.store.pairs import pair_of
from blazar.store.store import Store
from blazar.supervisor.bank_origin import bank_of
from blazar.supervisor.banks import bank_folder
from blazar.supervisor.means import Prepared, Weighed
from blazar.supervisor.router import Router, left_out
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
    manifest: Manifest
    uses_cards: bool
    lanes: Sequence[Mapping[str, Any]]
    """What the catalog offers."""


class Loader:
    """`settings_for` gives the effective settings of a model, by its name and the settings given with it;
    `load_limit` is in seconds, None = the lane's own; `unix` has children listen on sockets of their own; `tuned`
    holds the settings that were changed while the daemon ran, by the child's place; `router` makes the child that
    serves all models, where one does; `shown` has the places of children that get their projector, where that is
    loaded only for those."""

    def __init__(self, store: Store, paths: Paths, lanes: Sequence[Lane],
                 settings_for: Callable[[str, Mapping[str, Any]], Mapping[str, Any]], engine_path: str | None,
                 load_limit: float | None, child_auth: bool, unix: bool = False,
                 tuned: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
                 router: Router | None = None, shown: Set[str] = frozenset()) -> None:
        self._store = store
        self._paths = paths
        self._builds = Builds(paths, holds_daemon_lock=True)
        self._lanes = lanes
        self._settings_for = settings_for
        self._engine_path = engine_path
        self._load_limit = load_limit
        self._child_auth = child_auth
        self._unix = unix
        self._tuned = tuned
        self._router = router
        self._shown = shown

    def weigh(self, place: str) -> Weighed:
        """What the child of that place needs. Raises ModelNotFound, ModelFileRefused, LoadFailed and its kin."""
        if place == ROUTER and self._router is not None:
            return self._weigh_router(self._router)
        model = model_at(place)
        chosen = self._choose(place)
        check_files(model, chosen.settings)
        return self._weighed(place, chosen, rpc.refuse_gone(model, _addresses(chosen)))

    def survey(self, model: str, asked: Mapping[str, Any]) -> Weighed:
        """As `weigh`, with settings as `asked`, and without a look whether all is there that the load would use."""
        chosen = self._choose(model)
        chosen = replace(chosen, settings={**chosen.settings, **asked})
        return self._weighed(model, chosen, rpc.workers_at(_addresses(chosen)))

    def _weighed(self, place: str, chosen: "Chosen", workers: Sequence[rpc.Worker]) -> Weighed:
        def prepare(plan: Plan) -> Prepared:
            return self._prepare(place, chosen, plan)

        def sketch(plan: Plan) -> Hashable:
            return self._sketch(place, chosen, plan)

        need = self._need(chosen, workers, self._tuned.get(place, {}))
        return Weighed(need, chosen.settings, chosen.program, chosen.facts["digest"], prepare, sketch)

    def _weigh_router(self, router: Router) -> Weighed:
        """The child that serves every model of the main engine."""
        models, general = self._store.snapshot_models(), self._settings_for(ROUTER, {})
        configured = general.get("engine_routing") or {}
        program = find_program(ROUTER, self._engine_path, os.environ, self._builds.every(),
                               Routing(None, configured.get("mode") or "auto", configured.get("policy")))
        router.check(program)
        digest = fingerprint({name: model["digest"] for name, model in models.items()})
        unwritable = router.unwritable(digest)
        found: dict[str, Chosen] = {}
        needs: dict[str, Need] = {}
        for model in (name for name, facts in models.items() if any(lane.accepts(facts) for lane in self._lanes)):
            try:
                if model in unwritable:
                    raise LoadFailed(unwritable[model])
                chosen = self._choose(model, is_shown=True)  # one of its models alone cannot be started anew
                router.take(program, chosen.program, chosen.settings)
                check_files(model, chosen.settings)
                needs[model] = self._need(chosen, rpc.workers_at(_addresses(chosen)), {})
                found[model] = chosen
            except BlazarError as error:
                left_out(model, error)
        def section(model: str, plan: Plan) -> Prepared:
            return self._prepare(model, found[model], plan, is_section=True)

        def sketch(plan: Plan) -> Hashable:
            assert isinstance(plan, ManyPlans)
            return (router.link, plan.most, *((model, self._sketch(model, found[model], one, is_section=True))
                                              for model, one in sorted(plan.plans.items())))

        settings = router.settings(general, [chosen.settings for chosen in found.values()])
        return Weighed(ManyNeeds(needs, router.most), settings, program, digest,
                       lambda plan: router.prepare(program, digest, settings, plan, section), sketch)

    def _prepare(self, place: str, chosen: "Chosen", plan: Plan, is_section: bool = False) -> Prepared:
        """For a child of the model's own, or for a section of the router."""
        model, installed, lane, facts = model_at(place), chosen.installed, chosen.lane, chosen.facts
        socket = socket_path(self._paths, place) if self._unix and not is_section else None
        launch = self._launch(place, chosen, plan, assemble(self._paths, installed), is_section)
        launch = replace(launch, lookup_cache=self._lookup_cache(model, launch.settings),
                         sessions=None if is_section else self._session_folder(model, launch.settings, facts))
        command = lane.command(launch)
        for sentence in (*plan.warnings, *([plan.notice] if plan.notice else []), *command.skipped):
            log.warning("%s: %s", model, sentence)
        return Prepared(launch, lane, command, installed.size, self._load_limit or lane.load_timeout,
                        socket, forks.offered(facts["architecture"], chosen.lanes),
                        tuple(piece.path for piece in installed.pieces if piece.role in ("model", "part")),
                        bank_of(place, launch, command))

    def _launch(self, place: str, chosen: "Chosen", plan: Plan, found: Assembled, is_section: bool) -> Launch:
        """All but the folders that the engine writes into."""
        companions = tuple(one for one in found.companions if one[0] != "draft")
        return Launch(model=model_at(place), file=found.file, facts=chosen.facts,
                      settings={**chosen.settings, **plan.settings}, program=chosen.program,
                      secret_file=secret_path(self._paths, place) if self._child_auth and not is_section else None,
                      companions=(*companions, *([("draft", plan.draft)] if plan.draft else [])),
                      template=found.template, manifest=chosen.manifest, plan=plan)

    def _sketch(self, place: str, chosen: "Chosen", plan: Plan, is_section: bool = False) -> Hashable:
        launch = self._launch(place, chosen, plan, Assembled(chosen.installed.file), is_section)
        folders = wants_lookups(launch.settings), wants_sessions(launch.settings, chosen.facts)
        command = chosen.lane.command(launch)
        return command.argv, tuple(sorted(command.env.items())), launch.secret_file, self._unix, folders

    def sketch(self, place: str, machine: Census, room: Room) -> tuple[Hashable, Weighed]:
        """How the process of that place would be started in the `room` that others leave on the `machine`, and what it
        is weighed as. Runs on a thread; raises as `weigh`, and InsufficientMemory or its kin where it does not fit."""
        weighed = self.weigh(place)
        offer = weighed.need.offer(machine, room)
        if isinstance(offer, Refusal):
            raise refused(model_at(place), offer)
        return weighed.sketch(offer.plan), weighed

    def loses_nothing(self, place: str, now: Mapping[str, Any], then: Mapping[str, Any], machine: Census,
                      room: Room) -> bool:
        """Whether the child of that place would keep its context, precision and place in memory with the settings
        `then` in place of `now`, in the `room` that others leave on the `machine`. Runs on a thread; raises as
        `weigh`."""
        chosen = self._choose(place)
        workers = rpc.workers_at(_addresses(chosen))
        before = self._need(chosen, workers, now).offer(machine, room)
        after = replace(self._need(chosen, workers, then), untuned=None).offer(machine, room)
        return (isinstance(before, Offer) and isinstance(after, Offer) and after.serves(before)
                and after.plan.as_good_as(before.plan))

    def _need(self, chosen: "Chosen", workers: Sequence[rpc.Worker], tuned: Mapping[str, Any]) -> Need:
        tuned = {name: value for name, value in tuned.items() if name != "default_ctx" or _is_more(value, chosen)}
        pair, types = pair_of(chosen.installed, self._store.every()), types_of(chosen.manifest)

        def need(settings: Mapping[str, Any]) -> Need:
            return need_of(chosen.installed, settings, uses_cards=chosen.uses_cards, pair=pair, types=types,
                           **rpc.told(workers))

        plain = need(chosen.settings)
        return replace(need({**chosen.settings, **tuned}), tuned=tuned, untuned=plain) if tuned else plain

    def _lookup_cache(self, model: str, settings: Mapping[str, Any]) -> Path | None:
        return speccache.make_ready(self._paths, model) if wants_lookups(settings) else None

    def _session_folder(self, model: str, settings: Mapping[str, Any], facts: Mapping[str, Any]) -> Path | None:
        """Where the model's engine may keep its slots."""
        if not wants_sessions(settings, facts):
            return None
        folder = bank_folder(self._paths, model)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            log.warning("%s: its conversations will not be saved: %s", model, error)
            return None
        return folder

    def _choose(self, place: str, is_shown: bool = False) -> "Chosen":
        model = model_at(place)
        installed = self._store.get(model)
        facts = installed.summary()
        lane = next((lane for lane in self._lanes if lane.accepts(facts)), None)
        if lane is None:
            raise LoadFailed(model=model, reason=NO_ENGINE.format(format=facts["format"]), output="")
        settings = for_load(self._settings_for(model, installed.preset.settings()),
                            is_shown or place in self._shown)
        lanes, builds = Catalog.every(), self._builds.every()
        program = self._program(model, lane.kind, settings, facts, lanes, builds)
        manifest = manifest_of(program, self._paths.manifests, extra=engine_environment(settings))
        return Chosen(installed, facts, lane, settings, program, manifest, uses_cards(program, builds), lanes)

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


def wants_lookups(settings: Mapping[str, Any]) -> bool:
    """Whether the engine keeps a file of n-grams."""
    return bool(settings.get("spec_cache")) and str(settings.get("spec")).startswith("ngram")


def wants_sessions(settings: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Whether the engine keeps its slots; models that only make vectors have nothing to keep."""
    return bool(settings.get("sessions")) and "embedding" not in facts.get("capabilities", ())


def _is_more(ctx: int, chosen: Chosen) -> bool:
    """Whether that context is larger than the configured one; 0 is all that the model was trained with."""
    configured = chosen.settings.get("default_ctx") or 0
    return 0 < configured < ctx


def _addresses(chosen: Chosen) -> list[str]:
    return rpc.split_addresses(chosen.settings.get("rpc_servers") or "")


def check_files(model: str, settings: Mapping[str, Any]) -> None:
    """Raise LaunchFileMissing when one of the files that settings name for the engine is not there."""
    named = {name: settings.get(name) for name in ("mmproj", "chat_template_file", "mcp_servers_config")}
    named |= {f"loras[{place}].path": lora["path"] for place, lora in enumerate(settings.get("loras") or ())}
    for what, path in named.items():
        if path and not os.path.isfile(path):
            raise LaunchFileMissing(model=model, path=path, what=what)
