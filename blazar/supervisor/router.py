"""The router child: its command and its preset file, made of the models of the store."""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from blazar.engines import router
from blazar.engines.lane import Command, Launch
from blazar.engines.manifest import Manifest, manifest_of
from blazar.engines.program import Program
from blazar.errors import BlazarError, LoadFailed, RouterMissing
from blazar.paths import Paths
from blazar.supervisor.child import Prepared
from blazar.supervisor.spawn import secret_path, socket_path
from blazar.transport import ROUTER

log = logging.getLogger(__name__)

LANE = router.RouterLane()


class Router:
    """`most` models are loaded at a time, 0 leaves that to the engine; with `auth` requests need a secret, with `unix`
    it listens on a socket; `limit` is in seconds, for its start."""

    def __init__(self, paths: Paths, most: int, auth: bool, unix: bool, limit: float | None) -> None:
        self._paths = paths
        self._most = most
        self._auth = auth
        self._unix = unix
        self._limit = limit or LANE.load_timeout

    def prepare(self, program: Program, digests: Mapping[str, str], models: Iterable[str],
                section: Callable[[str], Prepared]) -> Prepared:
        """Write the preset file. `digests` are those of the whole store; `section` tells how one of `models` is loaded.

        A model for which it raises, or that no section can hold, is left out: a child of its own will serve it, or say
        why not. Raises RouterMissing, and LoadFailed when the file cannot be written.
        """
        manifest = manifest_of(program, self._paths.manifests)
        if not manifest.has(router.PRESETS):
            raise RouterMissing(engine=program.tag or program.argv[0], flag=router.PRESETS)
        sections = _Sections(manifest)
        for model in sorted(models):
            try:
                sections.add(model, section(model))
            except (BlazarError, router.Unwritable) as error:
                _left_out(model, error)
        text, common = sections.written()
        write(self._paths.router_presets, text)
        secret = secret_path(self._paths, ROUTER) if self._auth else None
        flags = [*common, ("--api-key-file", str(secret))] if secret else common
        env = {**sections.env, router.SECRET_VARIABLE: str(secret)} if secret else sections.env
        command = Command(router.argv(program.argv, str(self._paths.router_presets), self._most, flags), env)
        launch = Launch(model=ROUTER, file=self._paths.router_presets, facts={"digest": router.fingerprint(digests)},
                        settings={"pin": any(one.launch.settings.get("pin") for one in sections.serves.values())},
                        program=program, secret_file=secret, manifest=manifest)
        return Prepared(launch, LANE, command, 0, self._limit,
                        socket_path(self._paths, ROUTER) if self._unix else None, serves=sections.serves)


class _Sections:
    """The models that fit into one file, and into one environment."""

    def __init__(self, manifest: Manifest) -> None:
        self.serves: dict[str, Prepared] = {}
        self.env: dict[str, str] = {}
        self._manifest = manifest
        self._pairs: dict[str, list[router.Pair]] = {}

    def add(self, model: str, prepared: Prepared) -> None:
        """Raises router.Unwritable."""
        command = prepared.command
        if self.serves and command.env != self.env:
            differ = sorted(name for name, _ in {*command.env.items()} ^ {*self.env.items()})
            raise router.Unwritable(f"the router's other models have a different {differ[0]} in their environment")
        words = command.argv[len(prepared.launch.program.argv):]
        self._pairs[model] = router.pairs(words, self._manifest)
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
                _left_out(model, error)
                del self.serves[model]
        return "\n".join(texts), common


def write(file: Path, text: str) -> None:
    """Write it whole or not at all. Raises LoadFailed."""
    partial = file.with_suffix(".partial")
    try:
        partial.write_text(text)
        partial.replace(file)
    except OSError as error:
        raise LoadFailed(model=f"the {ROUTER}", reason=f"cannot write {file}: {error.strerror}", output="") from error


def _left_out(model: str, why: Exception) -> None:
    log.warning("%s is served by a child of its own and not by the router: %s", model, why)
