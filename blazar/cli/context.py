"""`Context`: what one call of `blazar` stands on. Each piece is made when a verb first asks for it."""

import argparse
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from blazar.cli.output import Output
from blazar.errors import ConfigRefused

if TYPE_CHECKING:
    from blazar.cli.client import Client
    from blazar.download.throttle import Bucket
    from blazar.paths import Located

SETTING = "setting_"
"""How the `dest` of an option begins that stands for a setting: `setting_port`."""


class Context:
    """The environment, the places, the configuration, the daemon and the output of this call."""

    def __init__(self, args: argparse.Namespace, env: Mapping[str, str], out: Output) -> None:
        self.env = env
        self.out = out
        self._args = args

    @cached_property
    def located(self) -> "Located":
        """Configuration file and data dir; what is odd about them is told once."""
        from blazar.paths import locate
        located = locate(self.env, self._args.config, self._args.data_dir)
        for warning in located.warnings:
            self.out.note(warning)
        return located

    @cached_property
    def config(self) -> Any:
        """The loaded configuration, with the settings given as options of the verb on top."""
        from blazar.config.load import load
        return load(self.located.config_file, self.env, self.flags, must_exist=bool(self._args.config))

    def reader(self) -> Callable[[], Any]:
        """Loads the configuration anew at each call, as `config` is. A file that was there once has to be there then,
        and one that said something has to say something: what has vanished, or is empty since the disk is full or
        somebody is about to write it, is no wish for the defaults, nor for having no API keys."""
        from blazar.config.document import Document
        from blazar.config.document import read as read_document
        from blazar.config.load import load_document
        file, flags = self.located.config_file, self.flags
        known, said = bool(self._args.config), False

        def document() -> Document:
            nonlocal known, said
            known = known or file.exists()
            found = read_document(file, known)
            if said and not found.text.strip():
                raise ConfigRefused(where=str(file), problem="it is empty, and was not before",
                                    remedy="write it again, or a line `#` if all defaults are meant")
            said = said or bool(found.text.strip())
            return found

        def read() -> Any:
            return load_document(document(), self.env, flags)

        with suppress(ConfigRefused):  # whoever serves has loaded it already
            document()
        return read

    @property
    def flags(self) -> dict[str, Any]:
        """Settings that this call's own options replace: those whose `dest` begins with SETTING."""
        return {name.removeprefix(SETTING): value for name, value in vars(self._args).items()
                if name.startswith(SETTING) and value is not None}

    @cached_property
    def client(self) -> "Client":
        """HTTP to the daemon that this call means; nothing is sent yet."""
        from blazar.cli.client import find
        return find(self.env, self.located.paths, lambda: self.config, bool(self._args.data_dir))

    @cached_property
    def store(self) -> Any:
        """The models of this data dir."""
        from blazar.store.store import Store
        return Store(self.located.paths)

    @cached_property
    def bucket(self) -> "Bucket | None":
        """The one limit on all that this call downloads; None = there is none."""
        from blazar.download.throttle import bucket_of
        return bucket_of(self.config.download_speed_limit_mb)

    @cached_property
    def daemon(self) -> dict[str, Any] | None:
        """What the daemon of this data dir says of itself, None when none runs."""
        from blazar.cli.client import daemon_status
        return daemon_status(self.located.paths)

    def ask_daemon(self) -> bool:
        """Whether to ask the daemon. False means that none answers and the verb works locally, which is said here."""
        if self.client.or_local():
            return True
        self.out.note(f"no daemon answers at {self.client.url}; working on {self.located.paths.data_dir} itself")
        return False

    def tell_daemon(self, kind: str, **fields: Any) -> dict[str, Any] | None:
        """Send a message over the control socket of this data dir, if a daemon runs there; its answer, or None."""
        from blazar.control import connect
        from blazar.errors import BlazarError, SupervisorGone
        try:
            link = connect(self.located.paths.control_socket)
        except SupervisorGone:
            return None
        try:
            return link.ask(kind, timeout=10.0, **fields)
        except BlazarError as error:
            self.out.note(f"the running daemon could not be told, restart it to make it see the change: {error}")
            return None
        finally:
            link.close()
