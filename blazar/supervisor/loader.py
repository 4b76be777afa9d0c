"""Reference → installed file and facts → lane and program → command: everything a load needs, on a thread."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from blazar.engines.lane import Lane, Launch
from blazar.engines.routing import find_program
from blazar.errors import LoadFailed
from blazar.paths import Paths
from blazar.store.assembled import assemble
from blazar.store.store import Store
from blazar.supervisor.child import Prepared
from blazar.supervisor.spawn import secret_path

NO_ENGINE = ("no engine here reads {format} files; install the same model as a GGUF file instead, which many "
             "publishers offer beside it, or convert it with llama.cpp's convert_hf_to_gguf.py")


class Loader:
    """`settings_for` gives the effective settings of a model, by its name and the settings given with it;
    `load_limit` is in seconds, None = the lane's own."""

    def __init__(self, store: Store, paths: Paths, lanes: Sequence[Lane],
                 settings_for: Callable[[str, Mapping[str, Any]], Mapping[str, Any]], engine_path: str | None,
                 load_limit: float | None, child_auth: bool) -> None:
        self._store = store
        self._paths = paths
        self._lanes = lanes
        self._settings_for = settings_for
        self._engine_path = engine_path
        self._load_limit = load_limit
        self._child_auth = child_auth

    def prepare(self, model: str) -> Prepared:
        """Runs on a thread. Raises ModelNotFound, ModelFileRefused, EngineMissing or LoadFailed."""
        installed = self._store.get(model)
        facts = installed.summary()
        lane = next((lane for lane in self._lanes if lane.accepts(facts)), None)
        if lane is None:
            raise LoadFailed(model=model, reason=NO_ENGINE.format(format=facts["format"]), output="")
        program = find_program(model, self._engine_path)
        found = assemble(self._paths, installed)
        launch = Launch(model=model, file=found.file, facts=facts, program=program,
                        settings=self._settings_for(model, installed.preset.settings()),
                        secret_file=secret_path(self._paths, model) if self._child_auth else None,
                        companions=found.companions, template=found.template)
        return Prepared(launch, lane, lane.command(launch), installed.size, self._load_limit or lane.load_timeout)
