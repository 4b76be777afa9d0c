"""Whether two GGUF models speak of the same tokens, so that one of them can draft for the other."""

import struct
from collections.abc import Iterator
from pathlib import Path

from blazar.errors import ModelFileRefused
from blazar.store.gguf import Header, read_header

WORDS = "tokenizer.ggml.tokens"
KIND = "tokenizer.ggml.model"
SPARE = 128
"""Tokens that one of the two may have more than the other: llama.cpp's own allowance, for padding at the end."""
FREE = 5
"""Tokens at the beginning that may differ: every family has its own special ones there."""
CHUNK = 1 << 20


def why_unlike(target: Path, draft: Path) -> str:
    """Why the model `draft` cannot draft for `target`, for the end of a sentence; "" when it can."""
    try:
        one, other = read_header(target), read_header(draft)
        if one.metadata.get(KIND) != other.metadata.get(KIND):
            return "its tokenizer is of another kind"
        sizes = [header.lengths.get(WORDS, 0) for header in (one, other)]
        if not all(sizes) or abs(sizes[0] - sizes[1]) > SPARE:
            return f"it knows {sizes[1]} tokens, and the model {sizes[0]}"
        if _edges(one) != _edges(other):
            return "its texts begin or end with other tokens"
        pairs = zip(_words(target, one), _words(draft, other), strict=False)
        different = next((number for number, (mine, its) in enumerate(pairs) if number >= FREE and mine != its), None)
    except (ModelFileRefused, OSError) as error:
        return f"it cannot be read ({error})"
    return "" if different is None else f"token {different} is another word for it"


def _edges(header: Header) -> list[object]:
    """What a tokenizer puts around a text, as far as the file says it."""
    found: list[object] = []
    for edge in ("bos", "eos"):
        adds = header.metadata.get(f"tokenizer.ggml.add_{edge}_token")
        found += [adds, header.metadata.get(f"tokenizer.ggml.{edge}_token_id") if adds else None]
    return found


def _words(path: Path, header: Header) -> Iterator[bytes]:
    """The tokens in their order. The header was read, so their lengths are known to end within it."""
    with open(path, "rb", buffering=CHUNK) as file:
        file.seek(header.begins[WORDS])
        for _ in range(header.lengths[WORDS]):
            length, = struct.unpack("<Q", file.read(8))
            yield file.read(length)
