"""`Keys`: the API keys of the settings. Alone of all settings they are read again when a key is made or taken back."""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
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
        self._reads = self._newest = self._reloads = 0

    @property
    def file(self) -> Path:
        return self._file.absolute()

    def read_again(self, link: Link, message: Message) -> None:
        """Read file and BLAZAR_KEYS again; the answer follows when every worker goes by what they say now."""
        self._reads += 1
        number, reloads = self._reads, self._reloads

        def read(entries: Any, error: BlazarError | None) -> None:
            if self._reloads != reloads:  # what was read may be older than what that has put in force
                self.read_again(link, message)
                return
            try:
                if error is not None:
                    raise error
                self._take_read(number, entries)
            except BlazarError as refused:
                link.refuse(message, refused)
                return
            names = names_of(self._config["keys"])
            self._workers.refresh(lambda: link.answer(message, file=str(self.file), names=names))

        self._pool.submit(read, _read, self._file)

    def _take_read(self, number: int, entries: list[dict[str, Any]]) -> None:
        """Raises ConfigRefused."""
        if number > self._newest:  # two may end in the other order than they began
            refuse_together({**self._config, "keys": entries}, f"with host {self._config['host']}")
            self._newest = number
            self.take(entries)

    def reloaded(self, entries: list[dict[str, Any]]) -> None:
        """A reload has read these with all other settings, perhaps before somebody changed them and had them read
        here: so the file has the last word."""
        self._reloads += 1
        self.take(entries)
        reads = self._reads = self._reads + 1
        self._pool.submit(lambda found, error: self._look_after(reads, found), _read, self._file)

    def _look_after(self, number: int, entries: list[dict[str, Any]] | None) -> None:
        if entries and entries != self._config["keys"]:  # none at all would let everybody in: not by such a chance
            with suppress(ConfigRefused):
                self._take_read(number, entries)

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
