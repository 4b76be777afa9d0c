"""Bytes of what a model keeps of the text: the KV cache, and the states of recurrent layers."""

from dataclasses import dataclass

from blazar.store.shape import Layer, Shape

BLOCK = 32
BLOCK_BYTES = {"f32": 128, "f16": 64, "bf16": 64, "q8_0": 34, "q5_1": 24, "q5_0": 22, "q4_1": 20, "q4_0": 18,
               "iq4_nl": 18}
"""Bytes of 32 numbers in each grade."""
PADDING = 256
"""Cells come in so many."""


@dataclass(frozen=True)
class Grade:
    """The precision of keys and of values."""

    keys: str = "f16"
    values: str = "f16"

    def __str__(self) -> str:
        return self.keys if self.keys == self.values else f"{self.keys} keys and {self.values} values"

    @property
    def is_quantized(self) -> bool:
        return self.keys not in ("f32", "f16", "bf16") or self.values not in ("f32", "f16", "bf16")


@dataclass(frozen=True)
class Window:
    """How much is kept: `ctx` tokens for each of `slots`, in one pool of cells for all or in one for each."""

    ctx: int
    slots: int = 1
    batch: int = 512
    """Tokens computed in one pass, which layers with a sliding window keep besides it."""
    unified: bool = True
    whole: bool = False
    """Whether layers with a sliding window keep the whole context too."""
    drafted: int = 0
    """Tokens that each slot has verified in one pass besides the one it writes."""

    @property
    def cells(self) -> int:
        """Cells of one pool."""
        return padded(self.ctx * self.slots if self.unified else self.ctx)

    @property
    def pools(self) -> int:
        return 1 if self.unified else self.slots

    def cells_of(self, layer: Layer) -> int:
        """Cells of one pool that the layer has."""
        if not layer.window or self.whole:
            return self.cells
        return padded(min(self.cells, layer.window * (self.slots if self.unified else 1) + self.batch))


def padded(tokens: int) -> int:
    return -(-tokens // PADDING) * PADDING


def layer_bytes(layer: Layer, grade: Grade, window: Window) -> int:
    """What one layer keeps in all."""
    row = (layer.keys * BLOCK_BYTES[grade.keys] + layer.values * BLOCK_BYTES[grade.values]) // BLOCK
    return row * window.cells_of(layer) * window.pools + layer.state * window.slots


def kv_bytes(shape: Shape, grade: Grade, window: Window) -> int:
    """What the whole model keeps."""
    return sum(layer_bytes(layer, grade, window) for layer in shape.layers)


def token_bytes(shape: Shape, grade: Grade) -> int:
    """What one more token of context takes, in the layers that keep every token."""
    return sum(layer.keys * BLOCK_BYTES[grade.keys] + layer.values * BLOCK_BYTES[grade.values]
               for layer in shape.layers if not layer.window) // BLOCK
