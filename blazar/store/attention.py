"""What the files of some architectures leave for the engine to know: which layers keep what of the text.

Each table says what llama.cpp does where a file has no key of its own for it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Windows:
    """Layers with a sliding window come in periods, of which one layer sees the whole text."""

    period: int
    whole_first: bool = False
    """Whether that one is the first of a period; else it is the last."""
    default: int = 0
    """Tokens of the window where the file names none; 0 = then there is no window at all."""


WINDOWED = {
    "gemma2": Windows(2, default=4096), "gemma3": Windows(6), "gemma3n": Windows(5), "cohere2": Windows(4),
    "cohere2moe": Windows(4, whole_first=True), "gpt-oss": Windows(2), "exaone4": Windows(4),
    "exaone-moe": Windows(4, default=128), "olmo2": Windows(4), "plamo3": Windows(8),
    "llama4": Windows(4, default=8192), "afmoe": Windows(4),
    "smallthinker": Windows(4, whole_first=True, default=4096), "mellum": Windows(4), "muse-glimmer": Windows(4),
    "laguna": Windows(4, whole_first=True),
}
WITHOUT_CACHE = frozenset({
    "bert", "jina-bert-v2", "jina-bert-v3", "nomic-bert", "nomic-bert-moe", "neo-bert", "eurobert", "modern-bert",
    "gemma-embedding", "wavtokenizer-dec", "dream", "llada", "llada-moe", "rnd1", "t5encoder",
})
"""Architectures that read a text once and keep nothing of it."""
RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
"""Architectures all of whose layers keep a state of fixed size instead of every token."""
INTERVALS = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4, "minimax-01": 8}
"""Architectures in which one layer of so many keeps every token, the last of each, and the others a state."""
BY_HEADS = frozenset({"jamba", "plamo2", "granitehybrid", "lfm2", "lfm2moe", "kimi-linear", "bailingmoe3",
                      "nemotron_h", "nemotron_h_moe"})
"""Architectures in which the layers without key-value heads keep a state."""
BOTH = frozenset({"falcon-h1"})
"""Architectures each of whose layers keeps both."""
SHARED_LAYERS = {"gemma3n": 15}
"""Architectures whose last layers use what earlier ones keep: how many, in the one size that exists."""
