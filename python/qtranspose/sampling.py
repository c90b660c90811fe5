"""Seeded random arguments for a function."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np

from qtranspose.elements import Array, Element
from qtranspose.functions import Signature
from qtranspose.reference.numbers import float_info


def random_array(element: Element, shape: Sequence[int], rng: np.random.Generator, largest_index: int = 15) -> Array:
    """Draw one array: floats from the standard normal distribution, integers over their whole range.

    A signless integer of fewer than 16 bits is stored data (weights, activations) and has no sign of its own: all its
    bit patterns are drawn. Wider ones are counters, tokens or accumulators and stay in 0..`largest_index`, so that they
    can be used as indices. The extremes of the range appear in every array of at least two elements.
    """
    if element.kind == "float":
        return rng.standard_normal(shape).astype(element.dtype)
    low, high = element.range
    if element.bits >= 16:
        low, high = 0, largest_index
    array = rng.integers(low, high, shape, dtype=np.int64, endpoint=True)
    if array.size >= 2:
        ends = rng.choice(array.size, 2, replace=False)
        array.reshape(-1)[ends] = low, high
    # Wraps a signless value past the signed maximum to the same bits.
    return array.astype(element.dtype)


def random_inputs(
    signature: Signature, seed: int = 0, dynamic: Sequence[int] = (3,), largest_index: int = 15
) -> list[Array]:
    """Draw the arguments of a function; the same seed gives the same arrays.

    Args:
        signature: of the function.
        seed: of the random generator.
        dynamic: sizes for the dynamic dimensions, in order of appearance; the last one is used for all that follow.
        largest_index: of integers of 16 bits and more.
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
        arrays.append(random_array(type.element, shape, rng, largest_index))
    return arrays


class Kind(Enum):
    """What to look for with an argument."""

    RANDOM = "random values"
    MARKED = "values that tell every position apart, so that exchanged axes, batches and channels show"
    EXTREME = "ends of the ranges, zeros, large and very small numbers"
    SPECIAL = "a few infinities and NaNs"


def sample_inputs(
    types: Signature, kind: Kind, seed: int, dynamic: Sequence[int], largest_index: int = 15
) -> list[Array]:
    """Draw the arguments of a function with sizes `dynamic` for its dynamic dims, in order of appearance."""
    arrays = random_inputs(types, seed, dynamic or (1,), largest_index)
    rng = np.random.default_rng([seed, list(Kind).index(kind)])
    for type, array in zip(types.arguments, arrays, strict=True):
        if array.size:
            _sharpen(array, type.element, kind, rng)
    return arrays


def _sharpen(array: Array, element: Element, kind: Kind, rng: np.random.Generator) -> None:
    flat = array.reshape(-1)
    if element.kind == "int":
        # Wide integers may be indices; what they point at is not known here.
        if element.bits >= 16 or kind in (Kind.RANDOM, Kind.SPECIAL):
            return
        low, high = element.range
        if kind is Kind.MARKED:
            flat[:] = (low + np.arange(array.size) * 7 % (high - low + 1)).astype(array.dtype)
        else:
            flat[:] = rng.choice(np.array([low, high, 0, low + 1, high - 1]), array.size).astype(array.dtype)
    elif kind is Kind.MARKED:
        # Steps of the last axis are small next to those of the first, and no two sums of them agree.
        flat[:] = (np.sqrt(np.arange(array.size) + 2.0) % 1 + np.arange(array.size) / array.size).astype(array.dtype)
    elif kind is Kind.EXTREME:
        info = float_info(element)
        tiny, unit = float(info.smallest_subnormal), float(info.eps)
        numbers = [0.0, -0.0, tiny, -3 * tiny, float(info.smallest_normal), 1.0, -1.0, 1 + unit, 7.5, -96.0]
        with np.errstate(all="ignore"):
            flat[:] = rng.choice(np.array(numbers), array.size).astype(array.dtype)
    elif kind is Kind.SPECIAL and array.size > 1:
        info_has_inf = bool(np.isinf(np.array(np.inf).astype(element.dtype).astype(np.float64)))
        special = [np.inf, -np.inf, np.nan] if info_has_inf else [np.nan]
        at = rng.choice(array.size, min(2, array.size), replace=False)
        with np.errstate(all="ignore"):
            flat[at] = rng.choice(np.array(special), at.size).astype(array.dtype)
