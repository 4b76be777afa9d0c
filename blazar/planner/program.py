"""Bytes of main memory that an engine takes for itself, besides weights, cache and what it computes in.

The numbers were measured with llama.cpp b11434 and with the embedded engine: `make memory` measures them again.
"""

from blazar.planner.kv import BLOCK, BLOCK_BYTES, Grade, Window
from blazar.store.shape import Shape

PROGRAM = 16 << 20
"""The program, its libraries and threads: llama-server takes 4 MiB, the embedded engine with its Python 20."""
TOKEN, MERGE = 170, 240
"""For each token of the vocabulary, and for each rule of one of pairs, in tables."""
CHECKPOINTS = 2
"""That a slot keeps of any text; one more follows about every 8192 tokens of a long one."""


def program_bytes(shape: Shape, grade: Grade, window: Window, checkpoints: int = 0) -> int:
    """With `checkpoints` a slot at most; 0 = as many as the engine likes."""
    kept = min(checkpoints or CHECKPOINTS, CHECKPOINTS) * window.slots
    return PROGRAM + shape.vocabulary * TOKEN + shape.merges * MERGE + kept * checkpoint_bytes(shape, grade, window)


def checkpoint_bytes(shape: Shape, grade: Grade, window: Window) -> int:
    """One copy of what the layers hold that forget: those with a window, and those with a state."""
    states = sum(layer.state for layer in shape.layers)
    if window.whole:
        return states
    rows = ((layer.keys * BLOCK_BYTES[grade.keys] + layer.values * BLOCK_BYTES[grade.values]) // BLOCK
            * min(layer.window, window.ctx) for layer in shape.layers if layer.window)
    return states + sum(rows)
