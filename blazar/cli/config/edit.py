"""`blazar config edit`: the settings file in an editor, taken over only when it is right."""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from blazar.cli.command import Command
from blazar.cli.context import Context
from blazar.errors import ConfigRefused, UsageRefused

if TYPE_CHECKING:
    from blazar.cli.config.change import Check

EDITORS = ("sensible-editor", "editor", "nano", "vi")
"""Those that are tried when neither VISUAL nor EDITOR is set."""


class Edit(Command):
    name = "edit"
    help = "Open the settings file in an editor, and check it before it counts"
    about = ("Opens a copy in $VISUAL or $EDITOR. What you save takes the file's place only if a daemon would accept "
             "it; otherwise you are told why and may go on. Where there is no file yet, you begin with the sample that "
             "names every setting.")
    examples = ("blazar config edit", "EDITOR=nano blazar config edit",
                "blazar --config /etc/blazar/config.toml config edit")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from blazar.cli.config.change import Check, tell, writing
        from blazar.config.amend import NEW_FOLDER
        editor = _editor(context)
        check = Check(context)
        with writing(context, "edit") as file:
            target = Path(os.path.realpath(file))
            target.parent.mkdir(mode=NEW_FOLDER, parents=True, exist_ok=True)
            before = _bytes(target)
            start = _sample() if before is None else before
            draft = _draft(target, start)
            try:
                changed = _edited(editor, draft, start, check, context)
                if changed is not None:
                    _take_over(target, before, changed, draft)
            except BaseException:
                if _bytes(draft) == start:
                    draft.unlink()
                else:
                    context.out.note(f"{file} is as it was; what you wrote is kept in {draft}")
                raise
            draft.unlink()
        if changed is None:
            context.out.note(f"nothing was changed in {file}")
            return 0
        context.out.line(f"{file} is right, and in its place")
        tell(context, check)
        return 0


def _editor(context: Context) -> list[str]:
    given = context.env.get("VISUAL") or context.env.get("EDITOR")
    found = shlex.split(given) if given else [name for name in EDITORS if shutil.which(name)][:1]
    if not found or shutil.which(found[0]) is None:
        raise UsageRefused(f"there is no editor {given or EDITORS[-1]} here; name one, as in "
                           f"`EDITOR=nano blazar config edit`")
    return found


def _bytes(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None


def _sample() -> bytes:
    from blazar.config.active import ACTIVE
    from blazar.config.render import sample
    return sample(ACTIVE).encode()


def _draft(target: Path, start: bytes) -> Path:
    """A copy that only its owner can read, beside the file, so that it survives us."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=".toml", dir=target.parent)
    with open(descriptor, "wb") as file:
        file.write(start)
    return Path(name)


def _edited(editor: list[str], draft: Path, start: bytes, check: "Check", context: Context) -> str | None:
    """The text after editing, accepted; None when it is as it was. Raises ConfigRefused when the person gives up."""
    from blazar.config.document import read
    while True:
        code = subprocess.run([*editor, str(draft)], env=dict(context.env), check=False).returncode
        if code:
            raise ConfigRefused(f"the editor {editor[0]} ended with exit code {code}, so nothing is taken over")
        if _bytes(draft) == start:
            return None
        document = read(draft, must_exist=True)
        try:
            check(document)
            return document.text
        except ConfigRefused as refused:
            if not sys.stdin.isatty() or not _go_on(refused, context):
                raise


def _go_on(refused: ConfigRefused, context: Context) -> bool:
    context.out.note(str(refused))
    context.out.note("edit it again? [Y/n]")
    return sys.stdin.readline().strip().lower() in ("", "y", "yes")


def _take_over(target: Path, before: bytes | None, text: str, draft: Path) -> None:
    from blazar.config.amend import alone, replace
    with alone(target.parent):
        if _bytes(target) != before:
            raise ConfigRefused(where=str(target), problem="somebody else changed it meanwhile",
                                remedy=f"bring both together by hand: yours is {draft}")
        replace(target, text)
