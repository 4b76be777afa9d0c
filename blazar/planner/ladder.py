"""The rungs of the KV cache: how coarse it may get so that a model still fits."""

from blazar.planner.kv import BLOCK, Grade
from blazar.store.shape import Shape

FINEST = Grade()
LADDER = (FINEST, Grade("q8_0", "q8_0"), Grade("q8_0", "q4_0"), Grade("q4_0", "q4_0"))
"""From the finest down."""
SPILLED = LADDER[1]
"""What a model gets that does not fit on its cards anyway: coarser rungs would win a layer or two at most."""


def rungs(shape: Shape, keys: str, values: str) -> tuple[Grade, ...]:
    """The grades to try, the finest first. A grade that was set stays, and counts for the other side too when that
    has none of its own."""
    if keys or values:
        return (Grade(keys or values, values or keys),)
    return tuple(grade for grade in LADDER if _is_possible(shape, grade))


def spilled(grades: tuple[Grade, ...]) -> Grade:
    """The one of `grades` for a model that is spread over cards and main memory."""
    return SPILLED if SPILLED in grades else grades[0]


def _is_possible(shape: Shape, grade: Grade) -> bool:
    """Numbers are packed in blocks, which may not cross from one head to the next; one row has one grade."""
    if shape.is_latent and grade.keys != grade.values:
        return False
    return not grade.is_quantized or not any(width % BLOCK for width in (shape.key_width, shape.value_width))
