"""Models in several GGUF files, as `llama-gguf-split` makes them: `NAME-00001-of-00003.gguf` and its neighbours."""

import re
from collections.abc import Sequence
from pathlib import Path

from blazar.errors import ModelFileRefused
from blazar.store.gguf import Header, read_header

MAX_PARTS = 999
_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)


def part_name(stem: str, number: int, count: int) -> str:
    """The name that llama.cpp looks for beside the first part; parts are numbered from 1."""
    return f"{stem}-{number:05}-of-{count:05}.gguf"


def stem_of(name: str) -> str:
    """The name without the number of the part; as it is when it has none."""
    found = _NAME.fullmatch(name)
    return found["stem"] if found else name


def neighbours(path: Path) -> list[Path]:
    """All parts of the set to which the file `path` belongs, in order; the file alone when its name names no set.

    Raises ModelFileRefused when one is missing.
    """
    found = _NAME.fullmatch(path.name)
    count = int(found["count"]) if found else 1
    if not found or count < 2:
        return [path]
    if count > MAX_PARTS:
        raise ModelFileRefused(path=path, reason=f"its name tells of {count} parts, {MAX_PARTS} are allowed")
    parts = [path.with_name(part_name(found["stem"], number, count)) for number in range(1, count + 1)]
    missing = [part.name for part in parts if not part.exists()]
    if missing:
        raise ModelFileRefused(path=path, reason=f"it is one of {count} parts, and of these {_some(missing)} is not "
                                                 f"beside it; put all parts into one folder")
    return parts


def read_parts(parts: Sequence[Path], names: Sequence[str] = ()) -> Header:
    """The headers of all parts as one: metadata of the first, sizes and tensors of all. Raises ModelFileRefused.

    `names` are what the parts are called for people, where that differs from their paths.
    """
    headers = [read_header(part) for part in parts]
    whole = headers[0]
    shown = [*names] or [str(part) for part in parts]
    for position, (header, name) in enumerate(zip(headers, shown, strict=True)):
        count, number = header.metadata.get("split.count", 1), header.metadata.get("split.no", 0)
        if count != len(parts):
            raise ModelFileRefused(path=name, reason=f"it says that it is one of {count} parts, and there are "
                                                     f"{len(parts)}; its whole set belongs together")
        if number != position:
            raise ModelFileRefused(path=name, reason=f"it says that it is part {number} (from 0), and stands as part "
                                                     f"{position + 1}; the parts have been renamed")
    for header in headers[1:]:
        whole.size += header.size
        whole.parameter_count += header.parameter_count
        whole.tensors += header.tensors
        whole.tensor_bytes.update(header.tensor_bytes)
        whole.tensor_types.update(header.tensor_types)
        for label, elements in header.elements_by_type.items():
            whole.elements_by_type[label] = whole.elements_by_type.get(label, 0) + elements
    expected = whole.metadata.get("split.tensors.count", whole.tensors)
    if expected != whole.tensors:
        raise ModelFileRefused(path=shown[0], reason=f"it says that its parts hold {expected} tensors, and they hold "
                                                     f"{whole.tensors}; the parts are not of one set")
    if not whole.parameter_count:
        raise ModelFileRefused(path=shown[0], reason="it holds no tensors")
    return whole


def _some(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
