"""`blazar create`: a model of your own, out of a Modelfile."""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from blazar.cli.command import Command
from blazar.cli.context import Context

if TYPE_CHECKING:
    from pathlib import Path

    from blazar.store.local import LocalFile
    from blazar.store.modelfile import Modelfile

STANDARD_INPUT = "-"


class Create(Command):
    name = "create"
    help = "Make a model out of a Modelfile"
    about = ("A Modelfile names a model or files (FROM), and what is given with them: PARAMETER, SYSTEM, MESSAGE, "
             "TEMPLATE, ADAPTER, LICENSE. Its files are found beside it and sent to the daemon; without a daemon the "
             "model is made in this machine's store, which is said. With BLAZAR_HOST set it only asks that daemon.")
    examples = ("blazar create mario -f Modelfile", "blazar create luigi -f - < Modelfile")

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="the name of the new model")
        parser.add_argument("-f", "--file", metavar="FILE", default="Modelfile",
                            help="the Modelfile (default: Modelfile; - reads standard input)")

    def run(self, args: argparse.Namespace, context: Context) -> int:
        from pathlib import Path

        from blazar.store import modelfile
        wanted = modelfile.parse(*_read(args.file))
        folder = Path.cwd() if args.file == STANDARD_INPUT else Path(args.file).resolve().parent
        source, files = _sources(wanted, folder)
        adapters = _files([folder / Path(name).expanduser() for name in wanted.adapters])
        make = self._ask if context.ask_daemon() else self._make
        for warning in [*wanted.warnings, *make(context, args.name, wanted, source, files, adapters)]:
            context.out.note(f"warning: {warning}")
        context.out.line(f"created {args.name}; try it with `blazar run {args.name} \"Hello\"`")
        return 0

    def _make(self, context: Context, name: str, wanted: "Modelfile", source: str | None,
              files: Sequence["LocalFile"], adapters: Sequence["LocalFile"]) -> list[str]:
        """In this machine's store; the warnings."""
        from blazar.store.copying import copied
        from blazar.store.create import Recipe, create
        store = context.store
        with context.out.progress() as progress, store.workspace(_size([*files, *adapters])) as folder:
            pieces = copied([*files, *adapters], folder, progress)
            recipe = Recipe(name, source, pieces[:len(files)], pieces[len(files):], wanted.preset, wanted.license)
            _, warnings = create(store, recipe)
        context.tell_daemon("changed", what="store")
        return warnings

    def _ask(self, context: Context, name: str, wanted: "Modelfile", source: str | None,
             files: Sequence["LocalFile"], adapters: Sequence["LocalFile"]) -> list[str]:
        """By the daemon, which is sent the files it does not have; the warnings."""
        preset = wanted.preset
        with context.out.progress() as progress:
            digests = _send(context.client, [*files, *adapters], progress)
        made = context.client.post("/api/create", {
            "model": name, "from": source, "stream": False, "system": preset.system, "template": preset.template,
            "messages": list(preset.messages), "parameters": preset.parameters, "license": wanted.license,
            "files": dict(digests[:len(files)]), "adapters": dict(digests[len(files):])})
        return list(made.get("warnings") or ())


def _read(file: str) -> tuple[str, str]:
    """The text of a Modelfile, and what to call it in refusals."""
    from blazar.errors import UsageRefused
    from blazar.store.modelfile import MAX_MODELFILE
    if file == STANDARD_INPUT:
        return sys.stdin.read(MAX_MODELFILE + 1), "standard input"
    try:
        with open(file, encoding="utf-8") as stream:
            return stream.read(MAX_MODELFILE + 1), file
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageRefused(f"the Modelfile {file} cannot be read: {reason}; name one with `-f FILE`") from error


def _sources(wanted: "Modelfile", folder: "Path") -> tuple[str | None, list["LocalFile"]]:
    """The installed model that FROM names, or the files."""
    from pathlib import Path

    from blazar.errors import ModelfileRefused
    paths = [folder / Path(name).expanduser() for name in wanted.sources]
    are_paths = [path.exists() or _looks_like_path(name) for path, name in zip(paths, wanted.sources, strict=True)]
    if not any(are_paths):
        if len(wanted.sources) > 1:
            raise ModelfileRefused(f"FROM names {wanted.sources[0]} and {wanted.sources[1]}; a model is made of one "
                                   f"installed model, or of files")
        return wanted.sources[0], []
    return None, _files(paths)


def _looks_like_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or name.lower().endswith((".gguf", ".safetensors"))


def _files(paths: "list[Path]") -> list["LocalFile"]:
    from blazar.store.local import local_files
    return local_files(paths) if paths else []


def _size(files: Sequence["LocalFile"]) -> int:
    return sum(file.size for file in files)


def _send(client: Any, files: Sequence["LocalFile"], progress: Any) -> list[tuple[str, str]]:
    """Name and digest of each file, after the daemon has it."""
    import hashlib
    sent: dict[str, str] = {}
    total, done = _size(files), 0
    for number, file in enumerate(files):
        with open(file.path, "rb") as stream:
            digest = f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
            if not client.has(f"/api/blobs/{digest}"):
                stream.seek(0)
                client.send(f"/api/blobs/{digest}", stream, file.size)
        done += file.size
        progress("install", done, total)
        sent[file.path.name if file.path.name not in sent else f"{number}-{file.path.name}"] = digest
    return list(sent.items())
