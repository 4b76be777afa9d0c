"""`ModelFacts`: what a model file says of itself, in the words of this product. Unknown stays None."""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from blazar.errors import ModelFileRefused
from blazar.store.gguf import Header, Scalar, read_header
from blazar.store.gguf_types import FILE_TYPES, GUESSED

EMBEDDING_ARCHITECTURES = frozenset({
    "bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3", "neo-bert", "modern-bert", "eurobert",
    "gemma-embedding", "t5encoder", "llama-embed",
})

RANK = 4
"""llama.cpp's number for models that score a pair of texts, which are no embedding models."""

NOT_MODELS = {
    # general.type: what such a file is
    "adapter": "a LoRA adapter", "mmproj": "a projector for images or audio", "imatrix": "an importance matrix",
    "vocab": "only a vocabulary",
}

_ARCHITECTURE = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TOOLS = re.compile(r"\btools\b|tool_call")
_THINKING = re.compile(r"<think>|enable_thinking|reasoning_content|<\|channel\|>")
_MARKS = (("fim_pre", "prefix"), ("fim_suf", "suffix"), ("fim_mid", "middle"))
"""Of tokens around a gap that the model can fill, the names that files give them."""
MAX_LICENSE = 64 << 10
"""Characters that are kept of a license text in the file itself."""
MAX_INFO_TEXT, MAX_INFO = 16 << 10, 256 << 10
"""Characters of one text of `model_info`, and of all: it stands in the database, and is sent to who asks for it."""
_STEPS = ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K"))


@dataclass(frozen=True)
class ModelFacts:
    """The facts of one file. Lengths are in tokens or elements, `size` in bytes."""

    architecture: str
    name: str | None
    context_length: int | None
    block_count: int | None
    head_count: int | None
    head_count_kv: int | None
    """Key-value heads of a layer; of the layer with most of them when layers differ."""
    key_length: int | None
    value_length: int | None
    embedding_length: int | None
    vocab_size: int | None
    quantization: str
    parameter_count: int
    size: int
    chat_template: str | None
    capabilities: tuple[str, ...]
    license: str | None
    model_info: Mapping[str, Scalar] = field(default_factory=dict)
    """The file's metadata but for arrays, the template and texts that are too long to be shown."""
    format: str = "gguf"

    @property
    def pooling(self) -> int:
        """llama.cpp's number of how token vectors become the text's; 0 when the file names none."""
        value = self.model_info.get(f"{self.architecture}.pooling_type")
        return value if isinstance(value, int) else 0

    @property
    def parameter_size(self) -> str:
        return format_count(self.parameter_count)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; `from_dict` is the way back."""
        return {**asdict(self), "capabilities": list(self.capabilities), "parameter_size": self.parameter_size}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "ModelFacts":
        known = {part.name: plain[part.name] for part in fields(cls) if part.name in plain}
        return cls(**{**known, "capabilities": tuple(plain["capabilities"])})


def read_facts(path: Path) -> ModelFacts:
    """The facts of the GGUF file `path`. Raises ModelFileRefused with the reason."""
    header = read_header(path)
    reason = why_not(header)
    parts = header.metadata.get("split.count", 1)
    if not reason and isinstance(parts, int) and parts > 1:
        reason = f"it is one of {parts} parts; give all of them, under the names they came with"
    if reason:
        raise ModelFileRefused(path=path, reason=reason)
    return facts_of(header)


def facts_of(header: Header) -> ModelFacts:
    """Pure: from a header that holds an architecture."""
    metadata = header.metadata
    architecture = str(metadata["general.architecture"])
    heads = _whole(header, f"{architecture}.attention.head_count")
    width = _whole(header, f"{architecture}.embedding_length")
    head_width = width // heads if width and heads else None
    template = _text(metadata, "tokenizer.chat_template")
    return ModelFacts(
        architecture=architecture,
        name=_text(metadata, "general.name"),
        context_length=_whole(header, f"{architecture}.context_length"),
        block_count=_whole(header, f"{architecture}.block_count"),
        head_count=heads,
        head_count_kv=_whole(header, f"{architecture}.attention.head_count_kv") or heads,
        key_length=_whole(header, f"{architecture}.attention.key_length") or head_width,
        value_length=_whole(header, f"{architecture}.attention.value_length") or head_width,
        embedding_length=width,
        vocab_size=_whole(header, f"{architecture}.vocab_size") or header.lengths.get("tokenizer.ggml.tokens"),
        quantization=_quantization(header),
        parameter_count=header.parameter_count,
        size=header.size,
        chat_template=template,
        capabilities=capabilities_of(architecture, metadata, template or ""),
        license=(_text(metadata, "general.license") or "")[:MAX_LICENSE] or None,
        model_info=_info(metadata),
    )


def format_count(count: int) -> str:
    """A number of parameters for people: 134515008 -> '134.5M'."""
    for step, letter in _STEPS:
        if count >= step:
            return f"{count / step:.1f}{letter}"
    return str(count)


def why_not(header: Header) -> str | None:
    """Why a well-formed file cannot be installed as a model, or None."""
    metadata = header.metadata
    architecture = metadata.get("general.architecture", "")
    kind = str(metadata.get("general.type", "model"))
    if not isinstance(architecture, str) or not _ARCHITECTURE.fullmatch(architecture):
        return f"its general.architecture is {str(architecture)[:60]!r}, not a word such as 'llama'"
    if kind in NOT_MODELS or architecture == "clip":
        return f"it is {NOT_MODELS.get(kind, NOT_MODELS['mmproj'])}, not a model of its own"
    return None


def capabilities_of(architecture: str, metadata: Mapping[str, Scalar], template: str) -> tuple[str, ...]:
    """What a model can do, by its metadata and its chat template."""
    pooling = metadata.get(f"{architecture}.pooling_type", 0)
    if pooling == RANK:
        return ("rerank",)
    pools = pooling != 0
    if architecture in EMBEDDING_ARCHITECTURES or pools:
        return ("embedding",)
    found = {
        "tools": bool(_TOOLS.search(template)),
        "vision": f"{architecture}.vision.block_count" in metadata,
        "thinking": bool(_THINKING.search(template)),
        "insert": all(any(f"tokenizer.ggml.{name}_token_id" in metadata for name in names) for names in _MARKS),
    }
    return ("completion", *(name for name, has in found.items() if has))


def _info(metadata: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """What is worth to be shown of the metadata."""
    found: dict[str, Scalar] = {}
    left = MAX_INFO
    for key, value in metadata.items():
        length = len(value) if isinstance(value, str) else 0
        is_number = not isinstance(value, float) or math.isfinite(value)
        if key != "tokenizer.chat_template" and is_number and length <= min(MAX_INFO_TEXT, left):
            found[key] = value
            left -= length
    return found


def _quantization(header: Header) -> str:
    """What the file states; when it states nothing, the type that most of its weights have."""
    stated = header.metadata.get("general.file_type")
    if isinstance(stated, int) and (stated & ~GUESSED) in FILE_TYPES:
        return FILE_TYPES[stated & ~GUESSED]
    return max(header.elements_by_type, key=lambda label: header.elements_by_type[label]).upper().replace(" ", "_")


def _whole(header: Header, key: str) -> int | None:
    """A non-negative whole number; the largest where each layer has its own."""
    values = header.arrays.get(key) or (header.metadata.get(key),)
    whole = [value for value in values if type(value) is int and value >= 0]
    return max(whole) if whole else None


def _text(metadata: Mapping[str, Scalar], key: str) -> str | None:
    value = metadata.get(key)
    return value if isinstance(value, str) and value.strip() else None
