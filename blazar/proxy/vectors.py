"""Embedding vectors as lists of numbers."""

import math
from typing import Any

MAX_FLOAT32 = 3.4028234663852886e38


def is_vector(value: Any) -> bool:
    """Whether this is a list of numbers that four bytes each can hold."""
    return isinstance(value, list) and bool(value) and all(
        isinstance(number, int | float) and not isinstance(number, bool) and -MAX_FLOAT32 <= number <= MAX_FLOAT32
        for number in value)


def normalised(vector: list[float]) -> list[float]:
    """The vector with the Euclidean length 1; one of zeros stays as it is."""
    length = math.hypot(*vector)
    return [number / length for number in vector] if length else vector


def shortened(vector: list[float], dimensions: int) -> list[float]:
    """The first numbers of a vector, with its length 1 again: of models that are made for it, they say nearly as much
    as all."""
    return normalised(vector[:dimensions])
