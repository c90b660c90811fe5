"""The reference: logical weights and what they multiply to, in NumPy, without any knowledge of the program text.

Element types round where every frontend rounds (each weight element in its dequantized type); sums are float64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .builders import NUMPY, is_float

ULP = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}


def rounded(x: np.ndarray, et: str) -> np.ndarray:
    """Round to ``et`` and return float64."""
    return np.asarray(x, np.float64).astype(NUMPY[et]).astype(np.float64)


@dataclass(frozen=True)
class Quant:
    """A logical weight ``(q - zp) * scale``: q is [..., N, K]; scale and zp are scalars or [..., N, groups].

    ``block`` is the group size where it does not divide K evenly (the last group is then shorter).
    """

    q: np.ndarray
    scale: np.ndarray
    zp: np.ndarray | None
    et: str
    block: int | None = None

    @property
    def groups(self) -> int:
        return self.scale.shape[-1]

    def values(self, et: str | None = None) -> np.ndarray:
        """The dequantized weight [..., N, K] in float64, each step rounded to ``et`` (default: the scale's type)."""
        et = et or self.et
        w = self.q.astype(np.float64)
        if self.zp is not None:
            w = rounded(w - self._spread(self.zp), et)
        return rounded(w * self._spread(self.scale), et)

    def _spread(self, p: np.ndarray) -> np.ndarray:
        p = np.asarray(p, np.float64)
        if p.ndim == 0:
            return p
        k = self.q.shape[-1]
        return np.repeat(p, self.block or k // p.shape[-1], axis=-1)[..., :k]


def quantize(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    *,
    bits: int = 8,
    signed: bool = True,
    groups: int | None = 1,
    zp: str | float = "none",
    et: str = "f32",
    block: int | None = None,
) -> Quant:
    """Random weights that use the whole storage range; ``groups=None`` is per tensor, ``block`` allows a ragged end.

    ``zp``: "none"; "int" and "float" (not an integer) draw one per group; a number is used everywhere.
    """
    if block is not None:
        groups = -(-shape[-1] // block)
    low = -(1 << (bits - 1)) if signed else 0
    q = rng.integers(low, low + (1 << bits), shape)
    groups_shape = () if groups is None else (*shape[:-1], groups)
    scale = rounded(rng.uniform(0.3, 3.0, groups_shape) / (1 << bits), et)
    middle = low + (1 << (bits - 1))
    zero: np.ndarray | None = None
    if zp == "int":
        span = max(1 << (bits - 2), 1)
        zero = rng.integers(middle - span, middle + span, groups_shape).astype(np.float64)
    elif zp == "float":
        zero = rounded(middle + rng.uniform(-2, 2, groups_shape), et)
    elif zp != "none":
        zero = np.array(float(zp))
    return Quant(q, scale, zero, et, block)


@dataclass(frozen=True)
class Ref:
    """An output: float64 (or exact integer) value and the absolute error a correct program may show, per element."""

    value: np.ndarray
    error: np.ndarray

    def map(self, f: Callable[[np.ndarray], np.ndarray]) -> Ref:
        """Apply a data movement to the value and to its error."""
        return Ref(f(self.value), f(self.error))

    def __add__(self, other: Ref) -> Ref:
        return Ref(self.value + other.value, self.error + other.error)

    def scaled(self, factor: np.ndarray | float) -> Ref:
        return Ref(self.value * factor, self.error * np.abs(factor))

    def stored(self, et: str) -> Ref:
        """Rounded to ``et``; a program that rounds a nearby value may land one step away."""
        if not is_float(et):
            return Ref(self.value.astype(NUMPY[et]), self.error)
        return Ref(rounded(self.value, et), self.error + ULP[et] * np.abs(self.value))


def exact(value: np.ndarray) -> Ref:
    return Ref(np.asarray(value), np.zeros(np.shape(value)))


def product(x: np.ndarray, w: np.ndarray, acc: str = "f32") -> Ref:
    """``x @ w``; the error bound is that of any summation order in ``acc`` (reassociation allowed)."""
    x, w = np.asarray(x).astype(np.float64), np.asarray(w).astype(np.float64)
    k = x.shape[-1]
    return Ref(x @ w, (k + 4) * ULP[acc] * (np.abs(x) @ np.abs(w)))


def integer_product(x: np.ndarray, w: np.ndarray, bits: int = 32) -> np.ndarray:
    """``x @ w`` of integers, exact; the accumulator must not overflow."""
    y = np.asarray(x).astype(np.int64) @ np.asarray(w).astype(np.int64)
    assert np.abs(y).max(initial=0) < 1 << (bits - 1)
    return y
