"""Seeded random arguments for a function."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qtranspose.elements import Array, Element
from qtranspose.functions import Signature


def random_array(element: Element, shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Draw one array: floats from the standard normal distribution, integers over their whole range.

    A signless integer of fewer than 16 bits is stored data (weights, activations) and has no sign of its own: all its
    bit patterns are drawn. Wider ones are counters, tokens or accumulators and stay in 0..15, so that they can be used
    as indices. The extremes of the range appear in every array of at least two elements.
    """
    if element.kind == "float":
        return rng.standard_normal(shape).astype(element.dtype)
    low, high = element.range
    if element.bits >= 16:
        low, high = 0, 15
    array = rng.integers(low, high, shape, dtype=np.int64, endpoint=True)
    if array.size >= 2:
        ends = rng.choice(array.size, 2, replace=False)
        array.reshape(-1)[ends] = low, high
    # Wraps a signless value past the signed maximum to the same bits.
    return array.astype(element.dtype)


def random_inputs(signature: Signature, seed: int = 0, dynamic: Sequence[int] = (3,)) -> list[Array]:
    """Draw the arguments of a function; the same seed gives the same arrays.

    Args:
        signature: of the function.
        seed: of the random generator.
        dynamic: sizes for the dynamic dimensions, in order of appearance; the last one is used for all that follow.
    """
    rng = np.random.default_rng(seed)
    sizes = iter(dynamic)
    size = 0
    arrays = []
    for type in signature.arguments:
        shape = []
        for extent in type.shape:
            if extent is None:
                size = next(sizes, size)
            shape.append(size if extent is None else extent)
        arrays.append(random_array(type.element, shape, rng))
    return arrays
