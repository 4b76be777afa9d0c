"""What the sub-verbs that change the file have in common: the check before it is written, and what is said after."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blazar.cli.context import Context
from blazar.config.config import Config
from blazar.config.document import Document
from blazar.errors import StoreUnwritable


class Check:
    """Loads a document as a daemon would, before it is written; keeps what it was loaded as."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.loaded: Config | None = None

    def __call__(self, document: Document) -> Config:
        """Raises ConfigRefused."""
        from blazar.config.load import load_document
        self.loaded = load_document(document, self._context.env)
        return self.loaded


@contextmanager
def writing(context: Context, *words: str) -> Iterator[Path]:
    """The file that is to be changed. Who may not write it is told the line that does; `words` are the call's own."""
    file = context.located.config_file
    try:
        yield file
    except PermissionError as error:
        line = shlex.join(["sudo", "blazar", "--config", str(file.absolute()), "config", *words])
        raise StoreUnwritable(path=file, reason=error.strerror, remedy=f"as its owner you can: `{line}`") from None
    except OSError as error:
        raise StoreUnwritable(path=file, reason=error.strerror or error,
                              remedy="the file is as it was; name another one with --config") from None


def tell(context: Context, check: Check, changed: str = "") -> None:
    """What the daemon would warn of, and when the change counts; `changed` is the setting, if there is only one."""
    from blazar.config.reach import FIXED
    for warning in check.loaded.warnings if check.loaded else ():
        context.out.note(warning)
    file = context.located.config_file.absolute()
    if context.daemon is None:
        context.out.note("it counts from the next start of `blazar serve` on")
        return
    running = f"the running daemon, pid {context.daemon['pid']}"
    if (theirs := context.daemon.get("settings", str(file))) != str(file):
        context.out.note(f"{running}, has {theirs} as its settings file, so nothing changes for it")
    elif changed in FIXED:
        context.out.note(f"{running}, goes on as it is: {changed} counts once it is started anew")
    else:
        context.out.note(f"{running}, goes on as it is: `blazar reload` makes it go by the change")
