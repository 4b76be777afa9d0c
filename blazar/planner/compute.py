"""Bytes in which an engine computes one batch: what is alive at the same time in the widest part of a layer.

The parts were measured with llama.cpp b11434: see `tests/probe/test_memory.py`, which measures them again.
"""

from blazar.planner.kv import Window
from blazar.store.shape import Shape

NUMBER = 4
"""Bytes of a number between two layers."""
MASK = 2
"""Bytes that say of one token and one cell whether it is looked at."""
AT_THE_END = 0.4
"""Of what is alive in a layer, what still is when the drafted tokens are compared with the whole vocabulary."""


def compute_bytes(shape: Shape, window: Window) -> int:
    """What one device needs besides weights and cache."""
    tokens = min(window.batch, max(window.ctx * window.slots, 1))
    attention = shape.heads * (shape.key_width + 2 * shape.value_width)
    if any(layer.values for layer in shape.layers):
        attention += 5 * shape.width
    state = 6 * shape.inner + 3 * shape.width if shape.inner else 0
    widest = max(attention, state, 5 * shape.width + 3 * shape.feed_forward)
    sizes = {window.cells_of(layer) for layer in shape.layers if layer.keys}
    body = tokens * (widest * NUMBER + sum(sizes) * MASK)
    written = body + shape.vocabulary * NUMBER * window.slots
    if not window.drafted:
        return written
    verified = min(tokens, window.slots * (1 + window.drafted))
    return max(written, int(body * AT_THE_END) + verified * shape.vocabulary * NUMBER)
