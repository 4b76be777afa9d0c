"""Models as folders of safetensors files: which files belong to one, and what they say of it. Weights are never read.

Such a folder is `config.json`, tokenizer files, and either one file of weights or several with an index
(`model.safetensors.index.json`) that tells in which of them each tensor lies.
"""

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blazar.errors import ModelFileRefused
from blazar.store.facts import EMBEDDING_ARCHITECTURES, ModelFacts, capabilities_of

FORMAT = "safetensors"
ENDING = ".safetensors"
INDEX = "model.safetensors.index.json"
CONFIG = "config.json"
TEMPLATE_FILE = "chat_template.jinja"
EXTRA_ENDINGS = (".json", ".txt", ".model", ".jinja")
"""Endings of the small files that belong to a model."""

MAX_FILES = 1024
MAX_SMALL = 64 << 20
"""Bytes of the largest file that is not weights; vocabularies of 260,000 tokens take about 33 MiB."""
MAX_PARSED = 16 << 20
"""Bytes of the longest JSON that is read: a header, an index; that of 100,000 tensors takes about 9 MiB."""
MAX_TENSORS = 1 << 20
MAX_ELEMENTS = 1 << 48
MAX_DIMENSIONS = 16

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "I64": 64, "U64": 64, "F64": 64,
    "C64": 64,
}
"""Bits of one element, by the name of its type."""


def members(folder: Path) -> list[Path]:
    """The files of the model in `folder`: those with weights first. Raises ModelFileRefused with what is missing."""
    try:
        files = sorted(entry for entry in folder.iterdir() if entry.is_file() and not entry.name.startswith("."))
    except OSError as error:
        raise _refused(folder, f"it cannot be read ({error.strerror})") from error
    weights = [file for file in files if file.name.endswith(ENDING)]
    names = {file.name for file in files}
    if not weights:
        raise _refused(folder, "it holds no .safetensors files; name a .gguf file, or the folder of a model")
    if CONFIG not in names:
        raise _refused(folder, f"its {CONFIG} is missing; copy all files of the model, not the weights alone")
    if INDEX in names:
        wanted = set(shards_of(folder / INDEX).values())
        missing = sorted(wanted - names)
        if missing:
            raise _refused(folder, f"{missing[0]} is missing, which its index names; download it again")
        weights = [file for file in weights if file.name in wanted]
    elif len(weights) > 1:
        raise _refused(folder, f"it has {len(weights)} files of weights and no {INDEX} that says how they belong "
                               f"together; copy that file too")
    found = [*weights, *(file for file in files if file.name.endswith(EXTRA_ENDINGS))]
    if len(found) > MAX_FILES:
        raise _refused(folder, f"it has {len(found)} files, {MAX_FILES} are allowed")
    return found


def shards_of(index: Path) -> dict[str, str]:
    """From an index: the file of each tensor. A file is a plain name: no path leads out of the folder."""
    table = _object(index, index.name).get("weight_map")
    if not isinstance(table, dict) or not table:
        raise _refused(index, "it has no `weight_map` that tells in which file each tensor lies")
    for file in table.values():
        if not isinstance(file, str) or not file.endswith(ENDING) or "/" in file or "\\" in file or "\0" in file:
            raise _refused(index, f"it names {str(file)[:60]!r}, which is not the name of a {ENDING} file beside it")
    return {str(tensor): file for tensor, file in table.items()}


def read_folder(files: Mapping[str, Path]) -> ModelFacts:
    """The facts of a model whose files, by their names, lie at these paths. Raises ModelFileRefused."""
    if CONFIG not in files:
        raise _refused(CONFIG, "it is missing, and belongs to every safetensors model")
    if not any(name.endswith(ENDING) for name in files):
        raise _refused(CONFIG, "no .safetensors file stands beside it")
    elements: dict[str, int] = {}
    placed: dict[str, str] = {}
    for name, path in files.items():
        if not name.endswith(ENDING):
            _check_size(path, name, MAX_SMALL)
        else:
            for tensor, (kind, count) in read_tensors(path, name).items():
                elements[kind] = elements.get(kind, 0) + count
                placed[tensor] = name
    if INDEX in files:
        _check_index(shards_of(files[INDEX]), placed, files[INDEX])
    config = _object(files[CONFIG], CONFIG)
    size = sum(path.stat().st_size for path in files.values())
    return _facts(config, _template(files), elements, size)


def read_tensors(path: Path, name: str) -> dict[str, tuple[str, int]]:
    """Type and number of elements of each tensor, after checking that header and file fit together."""
    try:
        with open(path, "rb") as file:
            size = path.stat().st_size
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            if not 2 <= length <= min(MAX_PARSED, size - 8):
                raise _refused(name, f"its header claims {length} bytes, and the file has {size}; it is cut short, or "
                                     f"no safetensors file")
            header = _parsed(file.read(length), name)
    except OSError as error:
        raise _refused(name, f"it cannot be read ({error.strerror})") from error
    header.pop("__metadata__", None)
    if not header or len(header) > MAX_TENSORS:
        raise _refused(name, f"it holds {len(header)} tensors; 1 to {MAX_TENSORS} are allowed")
    spans, found = [], {}
    for tensor, entry in header.items():
        kind, count, begin, end = _tensor(entry, tensor, name)
        spans.append((begin, end))
        found[tensor] = (kind, count)
    _check_spans(spans, size - 8 - length, name)
    return found


def _tensor(entry: Any, tensor: str, name: str) -> tuple[str, int, int, int]:
    """Type, number of elements, begin and end of one tensor."""
    entry = entry if isinstance(entry, dict) else {}
    kind = entry.get("dtype")
    shape, span = _whole_numbers(entry.get("shape")), _whole_numbers(entry.get("data_offsets"))
    if not isinstance(kind, str) or kind not in BITS or shape is None or span is None or len(span) != 2 \
            or len(shape) > MAX_DIMENSIONS:
        raise _refused(name, f"its tensor {tensor[:60]!r} has no type, shape and place that can be understood")
    count = math.prod(shape)
    if count > MAX_ELEMENTS or span[1] - span[0] != -(-count * BITS[kind] // 8):
        raise _refused(name, f"its tensor {tensor[:60]!r} has another length than its shape and type tell")
    return kind, count, span[0], span[1]


def _check_spans(spans: list[tuple[int, int]], available: int, name: str) -> None:
    """The tensors lie one after the other, from the header to the end of the file."""
    at = 0
    for begin, end in sorted(spans):
        if begin != at:
            raise _refused(name, f"between its tensors, at byte {at} of its weights, is a gap or an overlap")
        at = end
    if at != available:
        raise _refused(name, f"its tensors end at byte {at} of its weights, and it has {available}; download it again")


def _check_index(index: Mapping[str, str], placed: Mapping[str, str], path: Path) -> None:
    for tensor, file in index.items():
        if placed.get(tensor) != file:
            raise _refused(path.name if path.name == INDEX else INDEX,
                           f"it says that {tensor[:80]!r} lies in {file}, where it is not; files of different models "
                           f"have been mixed")


def _facts(config: Mapping[str, Any], template: str | None, elements: Mapping[str, int], size: int) -> ModelFacts:
    text = config.get("text_config")
    inner: Mapping[str, Any] = {**text, **config} if isinstance(text, dict) else config
    architecture = inner.get("model_type")
    if not isinstance(architecture, str) or not architecture.replace("-", "").replace("_", "").isalnum() \
            or len(architecture) > 64:
        raise _refused(CONFIG, "its `model_type` is not a word such as \"llama\"")
    heads, width = _number(inner, "num_attention_heads"), _number(inner, "hidden_size")
    head_width = _number(inner, "head_dim") or (width // heads if width and heads else None)
    return ModelFacts(
        architecture=architecture, name=None, context_length=_number(inner, "max_position_embeddings"),
        block_count=_number(inner, "num_hidden_layers"), head_count=heads,
        head_count_kv=_number(inner, "num_key_value_heads") or heads, key_length=head_width, value_length=head_width,
        embedding_length=width, vocab_size=_number(inner, "vocab_size"),
        quantization=max(elements, key=lambda kind: elements[kind]), parameter_count=sum(elements.values()), size=size,
        chat_template=template, capabilities=_capabilities(config, architecture, template or ""), license=None,
        format=FORMAT)


def _capabilities(config: Mapping[str, Any], architecture: str, template: str) -> tuple[str, ...]:
    classes = config.get("architectures")
    named = [name for name in classes if isinstance(name, str)] if isinstance(classes, list) else []
    writes = any(name.endswith(("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")) for name in named)
    if not writes and (named or architecture in EMBEDDING_ARCHITECTURES):
        return ("embedding",)
    sees = ("vision",) if isinstance(config.get("vision_config"), dict) else ()
    return (*capabilities_of(architecture, {}, template), *sees)


def _template(files: Mapping[str, Path]) -> str | None:
    if TEMPLATE_FILE in files:
        return _small(files[TEMPLATE_FILE], TEMPLATE_FILE).decode(errors="replace")
    if "tokenizer_config.json" not in files:
        return None
    given = _object(files["tokenizer_config.json"], "tokenizer_config.json").get("chat_template")
    return given if isinstance(given, str) and given.strip() else None


def _object(path: Path, name: str) -> dict[str, Any]:
    return _parsed(_small(path, name), name)


def _small(path: Path, name: str) -> bytes:
    _check_size(path, name, MAX_PARSED)
    try:
        return path.read_bytes()
    except OSError as error:
        raise _refused(name, f"it cannot be read ({error.strerror})") from error


def _check_size(path: Path, name: str, limit: int) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise _refused(name, f"it cannot be read ({error.strerror})") from error
    if size > limit:
        raise _refused(name, f"it has {size} bytes, {limit} are allowed")


def _parsed(text: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refused(name, f"it is no usable JSON ({error})") from None
    if not isinstance(value, dict):
        raise _refused(name, "it is no JSON object")
    return value


def _whole_numbers(value: Any) -> list[int] | None:
    """A list of whole numbers that are not negative, or None."""
    return value if isinstance(value, list) and all(type(one) is int and one >= 0 for one in value) else None


def _number(values: Mapping[str, Any], key: str) -> int | None:
    value = values.get(key)
    return value if type(value) is int and 0 <= value < 1 << 62 else None


def _refused(path: Path | str, reason: str) -> ModelFileRefused:
    return ModelFileRefused(f"{path} is not part of a usable safetensors model: {reason}")
