"""Shapes of models that many people run, from the sizes that their makers publish.

Weights are counted as in a GGUF file: matrices at `bits` for each number, which for the usual mixes is what whole files
come to. The numbers are those of each model's own config.json on huggingface.co.
"""

from dataclasses import dataclass

from blazar.store.shape import Layer, Shape


@dataclass(frozen=True)
class Known:
    """The sizes of one model. `experts` = how many, used for a token, and the width of one."""

    repository: str
    architecture: str
    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_width: int
    vocabulary: int
    context: int
    bits: float = 4.85
    """Q4_K_M; 8.5 is Q8_0, 16 is F16."""
    experts: tuple[int, int, int] = (0, 0, 0)
    tied: bool = False
    window: int = 0
    period: int = 0
    """One layer in so many sees everything; 0 = all do."""
    latent: int = 0
    """Numbers of the one compressed row that stands for keys and values."""
    merges: bool = True
    """Whether its vocabulary is one of pairs."""
    recurrent: int = 0
    """Bytes of state of the layers that keep one, where one in `period` keeps every token."""

    def shape(self) -> Shape:
        layers = tuple(self._layer(number) for number in range(self.layers))
        entry = self._bytes(self.vocabulary * self.width)
        used = self.experts[1] * self.experts[2]
        head, tied = (0, entry) if self.tied else (entry, 0)
        row = self.latent or self.head_width
        return Shape(self.architecture, self.context, layers, entry, head, tied, self.width,
                     max(self.feed_forward, used), self.heads, row, row, vocabulary=self.vocabulary,
                     merges=self.vocabulary if self.merges else 0)

    def _bytes(self, numbers: int) -> int:
        return int(numbers * self.bits / 8)

    def _layer(self, number: int) -> Layer:
        own = self.width * self.head_width * (2 * self.heads + 2 * self.kv_heads)
        experts = self._bytes(3 * self.experts[0] * self.experts[2] * self.width)
        dense = 0 if experts else self._bytes(3 * self.width * self.feed_forward)
        weights = self._bytes(own) + experts + dense
        is_whole = not self.period or number % self.period == self.period - 1
        if self.recurrent and not is_whole:
            return Layer(weights, experts, dense, state=self.recurrent)
        keys = self.latent or self.kv_heads * self.head_width
        return Layer(weights, experts, dense, keys, 0 if self.latent else keys, 0 if is_whole else self.window)


KNOWN = {
    "smollm2-135m": Known("HuggingFaceTB/SmolLM2-135M", "llama", 30, 576, 1536, 9, 3, 64, 49152, 8192, 8.5, tied=True),
    "qwen3-0.6b": Known("Qwen/Qwen3-0.6B", "qwen3", 28, 1024, 3072, 16, 8, 128, 151936, 40960, 8.5, tied=True),
    "llama-3.2-1b": Known("meta-llama/Llama-3.2-1B", "llama", 16, 2048, 8192, 32, 8, 64, 128256, 131072, tied=True),
    "llama-3.2-3b": Known("meta-llama/Llama-3.2-3B", "llama", 28, 3072, 8192, 24, 8, 128, 128256, 131072, tied=True),
    "qwen3-4b": Known("Qwen/Qwen3-4B", "qwen3", 36, 2560, 9728, 32, 8, 128, 151936, 40960, tied=True),
    "gemma-3-4b": Known("google/gemma-3-4b-it", "gemma3", 34, 2560, 10240, 8, 4, 256, 262144, 131072, tied=True,
                        window=1024, period=6, merges=False),
    "llama-2-7b": Known("meta-llama/Llama-2-7b", "llama", 32, 4096, 11008, 32, 32, 128, 32000, 4096, merges=False),
    "mistral-7b": Known("mistralai/Mistral-7B-v0.3", "llama", 32, 4096, 14336, 32, 8, 128, 32768, 32768, merges=False),
    "llama-3.1-8b": Known("meta-llama/Llama-3.1-8B", "llama", 32, 4096, 14336, 32, 8, 128, 128256, 131072),
    "llama-3.1-8b-f16": Known("meta-llama/Llama-3.1-8B", "llama", 32, 4096, 14336, 32, 8, 128, 128256, 131072, 16.0),
    "qwen3-8b": Known("Qwen/Qwen3-8B", "qwen3", 36, 4096, 12288, 32, 8, 128, 151936, 40960),
    "gemma-2-9b": Known("google/gemma-2-9b-it", "gemma2", 42, 3584, 14336, 16, 8, 256, 256000, 8192, tied=True,
                        window=4096, period=2, merges=False),
    "qwen3-14b": Known("Qwen/Qwen3-14B", "qwen3", 40, 5120, 17408, 40, 8, 128, 151936, 40960),
    "gpt-oss-20b": Known("openai/gpt-oss-20b", "gpt-oss", 24, 2880, 2880, 64, 8, 64, 201088, 131072, 4.6,
                         experts=(32, 4, 2880), window=128, period=2),
    "gemma-3-27b": Known("google/gemma-3-27b-it", "gemma3", 62, 5376, 21504, 32, 16, 128, 262144, 131072, tied=True,
                         window=1024, period=6, merges=False),
    "qwen3-30b-a3b": Known("Qwen/Qwen3-30B-A3B", "qwen3moe", 48, 2048, 6144, 32, 4, 128, 151936, 40960,
                           experts=(128, 8, 768)),
    "qwen3-next-80b": Known("Qwen/Qwen3-Next-80B-A3B", "qwen3next", 48, 2048, 5120, 16, 2, 256, 151936, 262144,
                            experts=(512, 10, 512), period=4, recurrent=4 * (3 * 8192 + 128 * 4096)),
    "llama-3.3-70b": Known("meta-llama/Llama-3.3-70B", "llama", 80, 8192, 28672, 64, 8, 128, 128256, 131072),
    "gpt-oss-120b": Known("openai/gpt-oss-120b", "gpt-oss", 36, 2880, 2880, 64, 8, 64, 201088, 131072, 4.4,
                          experts=(128, 4, 2880), window=128, period=2),
    "deepseek-r1": Known("deepseek-ai/DeepSeek-R1", "deepseek2", 61, 7168, 18432, 128, 1, 128, 129280, 163840,
                         experts=(256, 8, 2048), latent=576),
}
