"""The router child: its command and its preset file, made of the models of the store."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from blazar.engines import router
from blazar.engines.lane import Command, Launch
from blazar.engines.manifest import Manifest, manifest_of
from blazar.engines.program import Program
from blazar.errors import BlazarError, LoadFailed, RouterMissing
from blazar.paths import Paths
from blazar.planner.many import ManyPlans
from blazar.planner.plan import Plan
from blazar.supervisor.means import Prepared
from blazar.supervisor.spawn import secret_path, socket_path
from blazar.transport import ROUTER

log = logging.getLogger(__name__)

LANE = router.RouterLane()
TURNS = {"group": "is of a `group`", "exclusive": "is `exclusive`"}
"""Settings that say what may be loaded beside a model."""


class Router:
    """`most` models are loaded at a time, 0 leaves that to the engine; with `auth` requests need a secret, with `unix`
    it listens on a socket; `limit` is in seconds, for its start."""

    def __init__(self, paths: Paths, most: int, auth: bool, unix: bool, limit: float | None) -> None:
        self._paths = paths
        self.most = most
        self._auth = auth
        self._unix = unix
        self.link = auth, unix
        """How it is reached."""
        self._limit = limit or LANE.load_timeout
        self._unwritable: tuple[str, Mapping[str, str]] = ("", {})
        """Which models no section could hold, and why, and the digest of the store in which that was so."""

    def check(self, program: Program) -> None:
        """Raise RouterMissing when the engine is no router."""
        if not manifest_of(program, self._paths.manifests).has(router.PRESETS):
            raise RouterMissing(engine=program.tag or program.argv[0], flag=router.PRESETS)

    def take(self, program: Program, own: Program, settings: Mapping[str, Any]) -> None:
        """Raise LoadFailed for a model with these settings, whose `own` engine that is, when the router `program`
        cannot serve it."""
        if own.argv != program.argv:
            raise LoadFailed(f"the router is {program.tag}, and {own.tag} serves this model")
        turns = next((phrase for name, phrase in TURNS.items() if settings.get(name)), None)
        if turns:
            raise LoadFailed(f"it {turns}, of which a router knows nothing")

    def unwritable(self, digest: str) -> Mapping[str, str]:
        """What was found so when the router was started last, if the store is still the same: such models have no part
        in what it needs."""
        known, models = self._unwritable
        return models if known == digest else {}

    def settings(self, general: Mapping[str, Any], models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Those of the router, as a child among others: it is worth what the dearest of its models is."""
        costs = [cost for cost in (one.get("evict_cost") for one in models) if cost is not None]
        return {**general, "pin": any(one.get("pin") for one in models), "evict_cost": max(costs, default=None)}

    def prepare(self, program: Program, digest: str, settings: Mapping[str, Any], plan: Plan,
                section: Callable[[str, Plan], Prepared]) -> Prepared:
        """Write the preset file. `digest` is that of the whole store; `section` tells how one model is loaded.

        A model for which it raises, or that no section can hold, is left out: a child of its own will serve it, or say
        why not. Raises LoadFailed when the file cannot be written.
        """
        assert isinstance(plan, ManyPlans)
        manifest = manifest_of(program, self._paths.manifests)
        sections = _Sections(manifest)
        for model, one in sorted(plan.plans.items()):
            try:
                sections.add(model, section(model, one))
            except BlazarError as error:
                left_out(model, error)
        text, common = sections.written()
        self._unwritable = digest, {**self.unwritable(digest), **sections.unwritable}
        write(self._paths.router_presets, text)
        if plan.notice:
            log.warning("%s: %s", ROUTER, plan.notice)
        secret = secret_path(self._paths, ROUTER) if self._auth else None
        flags = [*common, ("--api-key-file", str(secret))] if secret else common
        env = {**sections.env, router.SECRET_VARIABLE: str(secret)} if secret else sections.env
        command = Command(router.argv(program.argv, str(self._paths.router_presets), plan.most, flags), env)
        launch = Launch(model=ROUTER, file=self._paths.router_presets, facts={"digest": digest, "capabilities": ()},
                        settings=settings, program=program, secret_file=secret, manifest=manifest)
        return Prepared(launch, LANE, command, 0, self._limit,
                        socket_path(self._paths, ROUTER) if self._unix else None, serves=sections.serves)


class _Sections:
    """The models that fit into one file, and into one environment."""

    def __init__(self, manifest: Manifest) -> None:
        self.serves: dict[str, Prepared] = {}
        self.env: dict[str, str] = {}
        self.unwritable: dict[str, str] = {}
        """Why, by model."""
        self._manifest = manifest
        self._pairs: dict[str, list[router.Pair]] = {}

    def add(self, model: str, prepared: Prepared) -> None:
        command = prepared.command
        if self.serves and command.env != self.env:
            differ = sorted(name for name, _ in {*command.env.items()} ^ {*self.env.items()})
            self._refuse(model, f"the router's other models have a different {differ[0]} in their environment")
            return
        words = command.argv[len(prepared.launch.program.argv):]
        try:
            self._pairs[model] = router.pairs(words, self._manifest)
        except router.Unwritable as error:
            self._refuse(model, str(error))
            return
        self.env = dict(command.env)
        self.serves[model] = prepared

    def written(self) -> tuple[str, list[router.Pair]]:
        """The text of the file, and what all models have in common that cannot stand there."""
        common = router.shared(self._pairs.values())
        texts = []
        for model, pairs in self._pairs.items():
            try:
                texts.append(router.section(model, [pair for pair in pairs if pair not in common]))
            except router.Unwritable as error:
                self._refuse(model, str(error))
                del self.serves[model]
        return "\n".join(texts), common

    def _refuse(self, model: str, why: str) -> None:
        self.unwritable[model] = why
        left_out(model, why)


def write(file: Path, text: str) -> None:
    """Write it whole or not at all. Raises LoadFailed."""
    partial = file.with_suffix(".partial")
    try:
        partial.write_text(text)
        partial.replace(file)
    except OSError as error:
        raise LoadFailed(model=f"the {ROUTER}", reason=f"cannot write {file}: {error.strerror}", output="") from error


def left_out(model: str, why: BlazarError | str) -> None:
    """Say in the log that the router does not serve the model."""
    log.warning("%s is served by a child of its own and not by the router: %s", model, why)
