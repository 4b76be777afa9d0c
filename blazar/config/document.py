"""The configuration file as text: decoded, parsed, and searched for the line of a key."""

import errno
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blazar.config.refusal import KeyPath
from blazar.errors import ConfigRefused
from blazar.paths import NoFile, open_file

MAX_BYTES = 4 << 20
MAX_DEPTH = 32
"""Of tables and lists within each other."""


class Document:
    """A parsed file. `line(path)` is where a key stands, or the nearest table around it, or None."""

    def __init__(self, file: Path, text: str, values: dict[str, Any]) -> None:
        self.file = file
        self.values = values
        self.text = text
        self._lines: dict[KeyPath, int] | None = None

    def line(self, path: KeyPath) -> int | None:
        if self._lines is None:
            self._lines = dict(_scan(self.text))
        while path:
            for known in (path, (*path, 0)):
                if known in self._lines:
                    return self._lines[known]
            path = path[:-1]
        return None


def read(file: Path, must_exist: bool = False) -> Document:
    """Read and parse `file`; a missing one is empty, unless it was asked for. Raises ConfigRefused."""
    try:
        with open_file(file) as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        if must_exist:
            raise _refused(file, "there is no such file", "correct the path, or create the file") from None
        raw = b""
    except IsADirectoryError:
        raise _refused(file, "it is a folder", "give the path of a file") from None
    except NoFile:  # a pipe can be read once, and would be empty when it is read again
        raise _refused(file, "it is no file, but a pipe or a device", "give the path of a file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        if getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE):
            raise _refused(file, f"it cannot be read: {reason}", "try again, and raise the limit of open files if that "
                           "goes on: LimitNOFILE= of the unit, `ulimit -n` of a shell") from None
        raise _refused(file, f"it cannot be read: {reason}",
                       "let the user that runs Blazar read it (`chmod`, `chown`); for the packaged service, `sudo -u "
                       "blazar blazar ...`, or BLAZAR_HOST=127.0.0.1:11435 to ask its daemon") from None
    text = _decode(file, raw)
    return Document(file, text, _parse(file, text))


def _decode(file: Path, raw: bytes) -> str:
    if len(raw) > MAX_BYTES:
        raise _refused(file, "it is over 4 MiB and cannot be a configuration", "correct the path")
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff") or raw[:4].count(0) >= 2:
        raise _refused(file, "it is saved as UTF-16 or UTF-32", "save it as UTF-8")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise _refused(f"{file} line {line}", f"byte 0x{raw[error.start]:02x} is not UTF-8",
                       "save it as UTF-8") from None


def _parse(file: Path, text: str) -> dict[str, Any]:
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise _refused(file, "it is nested too deeply", "write at most a few tables within each other") from None
    except ValueError as error:
        raise _written_twice(file, text, error) or _refused(
            file, f"not valid TOML: {error}",
            'write `name = value`, with text in "quotes", and each name once') from None
    if _depth(values) > MAX_DEPTH:
        raise _refused(file, "it is nested too deeply", "write at most a few tables within each other")
    return values


def _written_twice(file: Path, text: str, error: ValueError) -> ConfigRefused | None:
    """The refusal of a key or table that is there twice; the parser names neither it nor its first place."""
    if "overwrite" not in str(error) and "twice" not in str(error):
        return None
    told = re.search(r"at line (\d+)", str(error))
    last = int(told[1]) if told else len(text.rstrip().splitlines())
    seen: dict[KeyPath, int] = {}
    for path, line in reversed(list(_scan(text))):
        if path in seen and line == last:
            return _refused(f"{file} line {line}, key `{path[-1]}`", f"it is written in line {seen[path]} already",
                            "keep one of the two")
        seen[path] = line
    return None


def _depth(value: Any) -> int:
    """How deep tables and lists lie within each other, counted without recursion."""
    depth, level = 0, [value]
    while level and depth <= MAX_DEPTH:
        level = [item for outer in level if isinstance(outer, dict | list)
                 for item in (outer.values() if isinstance(outer, dict) else outer)]
        depth += 1
    return depth


def _scan(text: str) -> Iterator[tuple[KeyPath, int]]:
    """Path and line of every `key =` and table header, the last of a path first so that the first wins in a dict.

    Lines inside of long texts may be taken for keys; they come after the true one only by chance, and a wrong line
    costs a reader a glance.
    """
    found: list[tuple[KeyPath, int]] = []
    table: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if line.startswith("["):
            repeated = line.startswith("[[")
            header = _key_path(line.lstrip("[").partition("]")[0])
            if header is None:
                continue
            table = _numbered(header, counts, repeated)
            found.append((table, number))
        elif "=" in line and not line.startswith("#"):
            key = _key_path(line.partition("=")[0])
            if key is not None:
                found.append(((*table, *key), number))
    return reversed(found)


def _numbered(header: KeyPath, counts: dict[KeyPath, int], repeated: bool) -> KeyPath:
    """The header with the place of each [[list]] entry in it: `mcp.env` under the second [[mcp]] is mcp, 1, env."""
    path: KeyPath = ()
    for depth, name in enumerate(header, start=1):
        path = (*path, name)
        if repeated and depth == len(header):
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def _key_path(text: str) -> KeyPath | None:
    """The names of a dotted key as TOML reads them, or None when it is no key."""
    try:
        value = tomllib.loads(text + "= 0")
    except (ValueError, RecursionError):
        return None
    path: KeyPath = ()
    while isinstance(value, dict) and len(value) == 1:
        name, value = next(iter(value.items()))
        path = (*path, name)
    return path


def _refused(where: object, problem: str, remedy: str) -> ConfigRefused:
    return ConfigRefused(where=str(where), problem=problem, remedy=remedy)
