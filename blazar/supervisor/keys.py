"""`Keys`: the API keys of the settings. Alone of all settings they are read again when a key is made or taken back."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from blazar.config.load import load, refuse_together
from blazar.config.tables.api_keys import names_of
from blazar.control import Link, Message
from blazar.errors import BlazarError, ConfigRefused
from blazar.supervisor.pool import Pool
from blazar.supervisor.workers import Workers

log = logging.getLogger(__name__)


class Keys:
    """Used on the loop's thread. `config` is what a worker is told when it starts, `file` where that came from."""

    def __init__(self, config: dict[str, Any], file: Path, pool: Pool, workers: Workers,
                 publish: Callable[..., None] = lambda kind, **fields: None) -> None:
        self._config = config
        self._file = file
        self._pool = pool
        self._workers = workers
        self._publish = publish
        self._reads = self._newest = 0

    def read_again(self, link: Link, message: Message) -> None:
        """Read file and BLAZAR_KEYS again; the answer follows when every worker goes by what they say now."""
        self._reads += 1
        number = self._reads

        def read(entries: Any, error: BlazarError | None) -> None:
            if error is not None:
                link.refuse(message, error)
                return
            if number > self._newest:  # two may end in the other order than they began
                try:
                    refuse_together({**self._config, "keys": entries}, f"with host {self._config['host']}")
                except ConfigRefused as refused:
                    link.refuse(message, refused)
                    return
                self._newest = number
                self.take(entries)
            names = names_of(self._config["keys"])
            self._workers.refresh(lambda: link.answer(message, file=str(self._file.absolute()), names=names))

        self._pool.submit(read, _read, self._file)

    def take(self, entries: list[dict[str, Any]]) -> None:
        """From now on these are the API keys, with every worker."""
        self._config["keys"] = entries
        self._workers.note("keys", keys=entries)
        self._publish("keys_changed", keys=names_of(entries))
        log.info("API keys from now on: %s", ", ".join(names_of(entries)) or "none, so everybody is let in")


def _read(file: Path) -> list[dict[str, Any]]:
    """Raises ConfigRefused, also for a file that is gone: a server with API keys must not lose them by accident."""
    if file == Path():
        raise ConfigRefused(where="this daemon", problem="it was started without a configuration file",
                            remedy="start it anew")
    return load(file, os.environ, must_exist=True).as_dict()["keys"]
