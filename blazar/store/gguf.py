"""Read the header of a GGUF file: its metadata and the list of its tensors, never their weights.

A header comes from a stranger, so every count and length is checked against a limit and against the size of the
file before anything is read or kept. Long arrays (the vocabulary) are walked over, and only their length is kept.
"""

import math
import os
import stat
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from blazar.errors import ModelFileRefused
from blazar.store.gguf_types import TENSOR_TYPES

MAX_HEADER = 64 << 20
"""Bytes of the longest header; a vocabulary of 260,000 tokens with its merges takes about 16 MiB."""
MAX_KEYS = 4096
MAX_TENSORS = 65_536
MAX_KEY_LENGTH = 512
MAX_TEXT = 16 << 20
"""Bytes of one text."""
KEPT_TEXT = 1 << 20
"""Bytes of the longest text that is kept, such as a chat template."""
MAX_KEPT_TEXTS = 4 << 20
"""Bytes of all kept texts together."""
MAX_ARRAY = 2 << 20
"""Elements of one array."""
MAX_KEPT = 1024
"""Elements of the longest array of numbers that is kept: one for each layer."""
MAX_DIMENSIONS = 4
MAX_ELEMENTS = 1 << 48
"""Elements of one tensor."""
WINDOW = 256 << 10
"""Bytes read at once."""

SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
STRING, ARRAY = 8, 9

LOOKALIKES = (
    (b"GGJT", "it is in llama.cpp's format of before GGUF; convert the original model again"),
    (b"tjgg", "it is in llama.cpp's format of before GGUF; convert the original model again"),
    (b"PK\x03\x04", "it is a zip archive or a PyTorch checkpoint"),
    (b"<!DO", "it is a web page; download the file itself"),
    (b"<htm", "it is a web page; download the file itself"),
    (b"vers", "it looks like a Git LFS pointer; fetch the file itself with `git lfs pull`"),
)

Scalar = bool | int | float | str


@dataclass
class Header:
    """What a GGUF file says of itself."""

    version: int
    size: int
    """Bytes of the whole file."""
    metadata: dict[str, Scalar] = field(default_factory=dict)
    arrays: dict[str, tuple[Scalar, ...]] = field(default_factory=dict)
    """Short arrays of numbers, such as one value for each layer."""
    lengths: dict[str, int] = field(default_factory=dict)
    """Elements of every array, kept or not, and bytes of every text that was too long to keep."""
    begins: dict[str, int] = field(default_factory=dict)
    """At which byte the texts of an array begin, each its length and then its bytes."""
    kept: int = 0
    """Bytes of the kept texts."""
    tensors: int = 0
    parameter_count: int = 0
    elements_by_type: dict[str, int] = field(default_factory=dict)
    tensor_bytes: dict[str, int] = field(default_factory=dict)
    """Bytes of each tensor, by its name; 0 for a type whose blocks are not known."""
    tensor_types: dict[str, str] = field(default_factory=dict)


class _Refused(Exception):
    """Why the file is refused; `read_header` adds which file."""


def read_header(path: Path) -> Header:
    """Read and check the header of `path`. Raises ModelFileRefused with the reason."""
    try:
        with open(path, "rb", buffering=0, opener=_open_at_once) as file:
            return _read(file)
    except _Refused as refused:
        raise ModelFileRefused(path=path, reason=str(refused)) from None
    except FileNotFoundError:
        raise ModelFileRefused(path=str(path)[:200], reason="there is no such file") from None
    except IsADirectoryError:
        raise ModelFileRefused(path=path, reason="it is a folder; name the .gguf file in it") from None
    except OSError as error:
        raise ModelFileRefused(path=str(path)[:200], reason=f"it cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise ModelFileRefused(path=str(path)[:200], reason=str(error)) from error


def _open_at_once(path: str, flags: int) -> int:
    """Open without waiting for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def _read(file: BinaryIO) -> Header:
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        raise _Refused("it is not a regular file")
    if not status.st_size:
        raise _Refused("it is empty")
    cursor = _Cursor(file, status.st_size)
    header = Header(_version(cursor), status.st_size)
    tensors = cursor.count("tensors", MAX_TENSORS, 24)
    keys = cursor.count("metadata keys", MAX_KEYS, 13)
    for _ in range(keys):
        _read_pair(cursor, header)
    _read_tensors(cursor, header, tensors)
    return header


def _version(cursor: "_Cursor") -> int:
    magic = cursor.take(4) if cursor.size >= 4 else b""
    if magic != b"GGUF":
        hint = next((hint for start, hint in LOOKALIKES if magic == start), "it does not begin with `GGUF`")
        raise _Refused(hint)
    version = cursor.number("<I")
    if version & 0xFFFF == 0 and version:
        raise _Refused("it is big-endian; convert it for this machine with gguf-py's gguf_convert_endian")
    if version not in (2, 3):
        raise _Refused(f"its GGUF version is {version}; 2 and 3 can be read")
    return version


def _read_pair(cursor: "_Cursor", header: Header) -> None:
    key = cursor.text("a metadata key", MAX_KEY_LENGTH)
    if not key or key in header.metadata or key in header.lengths:
        raise _Refused(f"its metadata key {key[:60]!r} is {'there twice' if key else 'empty'}")
    kind = cursor.number("<I")
    if kind == ARRAY:
        _read_array(cursor, header, key)
    elif kind == STRING:
        _read_text(cursor, header, key)
    elif kind in SCALARS:
        header.metadata[key] = cursor.scalar(SCALARS[kind])
    else:
        raise _Refused(f"its metadata key {key[:60]!r} has the unknown type {kind}")


def _read_text(cursor: "_Cursor", header: Header, key: str) -> None:
    length = cursor.length(f"the value of {key[:60]}", MAX_TEXT)
    if length > KEPT_TEXT:
        header.lengths[key] = length
        cursor.skip(length)
        return
    header.metadata[key] = cursor.take(length).decode("utf-8", "replace")
    header.kept += length
    if header.kept > MAX_KEPT_TEXTS:
        raise _Refused(f"its metadata holds more than {MAX_KEPT_TEXTS >> 20} MiB of text")


def _read_array(cursor: "_Cursor", header: Header, key: str) -> None:
    kind = cursor.number("<I")
    if kind == ARRAY:
        raise _Refused(f"its metadata key {key[:60]!r} holds arrays inside an array")
    if kind != STRING and kind not in SCALARS:
        raise _Refused(f"its metadata key {key[:60]!r} is an array of the unknown type {kind}")
    width = 8 if kind == STRING else struct.calcsize(SCALARS[kind])
    count = cursor.count(f"elements in {key[:60]}", MAX_ARRAY, width)
    header.lengths[key] = count
    if kind == STRING:
        header.begins[key] = cursor.at
        cursor.skip_texts(count, key[:60])
    elif count <= MAX_KEPT:
        header.arrays[key] = struct.unpack(f"<{count}{SCALARS[kind][1]}", cursor.take(count * width))
    else:
        cursor.skip(count * width)


def _read_tensors(cursor: "_Cursor", header: Header, count: int) -> None:
    """Walk the tensor list and see that the file is long enough for each."""
    if not count and header.metadata.get("split.count", 1) == 1:  # the first part of a set may hold metadata alone
        raise _Refused("it holds no tensors")
    header.tensors, end = count, 0
    for _ in range(count):
        name = cursor.text("a tensor's name", MAX_KEY_LENGTH)
        dimensions = cursor.number("<I")
        if not name or not 1 <= dimensions <= MAX_DIMENSIONS:
            raise _Refused(f"its tensor {name[:60]!r} has {dimensions} dimensions, or no name")
        elements = math.prod(cursor.number("<Q") for _ in range(dimensions))
        kind, offset = cursor.number("<I"), cursor.number("<Q")
        if elements > MAX_ELEMENTS:
            raise _Refused(f"its tensor {name[:60]!r} has {elements} elements, {MAX_ELEMENTS} are allowed")
        label, block, block_bytes = TENSOR_TYPES.get(kind, (f"type {kind}", 1, 0))
        header.tensor_bytes[name] = -(-elements // block) * block_bytes
        header.tensor_types[name] = label
        end = max(end, offset + header.tensor_bytes[name])
        header.parameter_count += elements
        header.elements_by_type[label] = header.elements_by_type.get(label, 0) + elements
    needed = _aligned(cursor.at, header) + end
    if needed > header.size:
        raise _Refused(f"it is cut short: its tensors end at byte {needed}, the file at {header.size}; "
                       f"download or copy it again")


def _aligned(position: int, header: Header) -> int:
    alignment = header.metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 8 <= alignment <= 1 << 16 or alignment % 8:
        raise _Refused(f"its general.alignment is {alignment!r}, which is no multiple of 8 up to 65536")
    return -(-position // alignment) * alignment


class _Cursor:
    """A place in the file, read through a window; refuses to pass the end of the file or MAX_HEADER."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.size = size
        self.at = 0
        self._file = file
        self._window = b""
        self._start = 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        begin = self.at
        self.skip(count)
        if begin < self._start or self.at > self._start + len(self._window):
            self._fill(begin, count)
        return self._window[begin - self._start:self.at - self._start]

    def skip(self, count: int) -> None:
        self.at += count
        if self.at > self.size:
            raise _Refused(f"it is cut short, or a length in it is wrong: its header goes on to byte {self.at}, "
                           f"the file ends at {self.size}")
        if self.at > MAX_HEADER:
            raise _Refused(f"its header is longer than {MAX_HEADER >> 20} MiB")

    def scalar(self, form: str) -> Scalar:
        value: Scalar = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return value

    def number(self, form: str) -> int:
        """A whole number; `form` names a kind of integer."""
        return int(self.scalar(form))

    def count(self, what: str, limit: int, width: int) -> int:
        """A count of things of at least `width` bytes each, checked against `limit` and the rest of the file."""
        found = self.number("<Q")
        if found > limit:
            raise _Refused(f"it claims {found} {what}, {limit} are allowed")
        if found * width > self.size - self.at:
            raise _Refused(f"it claims {found} {what}, more than fit into the file; it may be cut short")
        return found

    def length(self, what: str, limit: int) -> int:
        """The length of the text that follows, in bytes."""
        length = self.number("<Q")
        if length > limit:
            raise _Refused(f"{what} has {length} bytes, {limit} are allowed")
        return length

    def text(self, what: str, limit: int) -> str:
        return self.take(self.length(what, limit)).decode("utf-8", "replace")

    def skip_texts(self, count: int, key: str) -> None:
        """Walk over `count` texts: each is its length, then its bytes.

        A long list of nothing (a file of zeros) would keep this loop busy, so a window full of empty texts is
        refused: real vocabularies have at most a few.
        """
        length_at = struct.Struct("<Q").unpack_from
        while count:
            self._fill(self.at, 8)
            at, last, before = 0, len(self._window) - 8, count
            while count and at <= last:
                at += 8 + length_at(self._window, at)[0]
                count -= 1
            if count and at < 9 * (before - count):
                raise _Refused(f"its metadata key {key!r} is a long list of empty texts")
            self.skip(at)

    def _fill(self, begin: int, least: int) -> None:
        self._file.seek(begin)
        self._window, self._start = self._file.read(max(WINDOW, least)), begin
        if len(self._window) < least:
            raise _Refused(f"it is cut short: its header does not end before byte {self.size}")
