"""The fundamental types of PTX and how registers hold them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class PTXError(Exception):
    """A program that cannot be executed, or does something that a GPU leaves undefined."""


@dataclass(frozen=True)
class ScalarType:
    """The type of an instruction or register.

    Attributes:
        name: without the dot.
        bits: of the register.
        dtype: of one element.
        lanes: elements in the register; 2 for `f16x2` and `bf16x2`.
    """

    name: str
    bits: int
    dtype: np.dtype[Any]
    lanes: int = 1

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.bits // 8

    @property
    def storage(self) -> np.dtype[Any]:
        """The type of the array that holds registers of this width: unsigned, or bool for predicates."""
        return np.dtype(np.bool_) if self.name == "pred" else np.dtype(f"u{self.size}")

    @property
    def is_float(self) -> bool:
        """Whether arithmetic on it is floating-point."""
        return self.name[0] == "f" or self.name.startswith("bf")

    @property
    def is_signed(self) -> bool:
        """Whether it is a signed integer."""
        return self.name[0] == "s"


def _integers() -> dict[str, ScalarType]:
    kinds = {"u": "u", "b": "u", "s": "i"}
    return {
        f"{kind}{bits}": ScalarType(f"{kind}{bits}", bits, np.dtype(f"{code}{bits // 8}"))
        for kind, code in kinds.items()
        for bits in (8, 16, 32, 64)
    }


TYPES = {
    **_integers(),
    "pred": ScalarType("pred", 1, np.dtype(np.bool_)),
    "f16": ScalarType("f16", 16, np.dtype(np.float16)),
    "bf16": ScalarType("bf16", 16, np.dtype(ml_dtypes.bfloat16)),
    "f32": ScalarType("f32", 32, np.dtype(np.float32)),
    "f64": ScalarType("f64", 64, np.dtype(np.float64)),
    "f16x2": ScalarType("f16x2", 32, np.dtype(np.float16), 2),
    "bf16x2": ScalarType("bf16x2", 32, np.dtype(ml_dtypes.bfloat16), 2),
}


def view_as(bits: Array, type: ScalarType) -> Array:
    """Read register contents as a type; packed types get a last axis of 2, low half first."""
    if type.lanes == 1:
        return bits.view(type.dtype)
    shape = (*bits.shape, type.lanes)
    return np.ascontiguousarray(bits).reshape(-1).view(type.dtype).reshape(shape)


def bits_of(value: Array, type: ScalarType) -> Array:
    """Return the register contents that stand for a value: the inverse of `view_as`."""
    if type.lanes == 1:
        return value.view(type.storage)
    shape = value.shape[:-1]
    return np.ascontiguousarray(value).reshape(-1).view(type.storage).reshape(shape)


def round_to(value: Array, type: ScalarType) -> Array:
    """Round a float64 array to nearest even in a type; ml_dtypes would round twice on the way to bf16."""
    if type.dtype != ml_dtypes.bfloat16 or value.dtype != np.float64:
        return value.astype(type.dtype)
    single = value.astype(np.float32)
    error = value - single
    bits = single.view(np.uint32)
    inexact = np.isfinite(value) & np.isfinite(single) & (error != 0) & (bits & np.uint32(1) == 0)
    up = (error > 0) == (value > 0)
    # Rounded to odd, the second rounding sees on which side of a tie the value was.
    odd = np.where(up, bits + np.uint32(1), bits - np.uint32(1))
    return np.where(inexact, odd, bits).astype(np.uint32).view(np.float32).astype(type.dtype)


def fused_multiply_add(a: Array, b: Array, c: Array, type: ScalarType) -> Array:
    """Return a * b + c with one rounding, exactly for types of up to 32 bits.

    The product of two such numbers is exact in float64. The sum is rounded to odd there, so that rounding it again to
    the type is as good as rounding once. For f64 the sum is made in extended precision and rounded twice.
    """
    if type.dtype == np.float64:
        wide = np.longdouble
        return np.asarray(a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(np.float64)
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = np.asarray(product + addend)
    rest = total - product
    error = (product - (total - rest)) + (addend - rest)
    bits = total.view(np.int64)
    inexact = (error != 0) & np.isfinite(error) & (bits & 1 == 0)
    if inexact.any():
        total = np.where(inexact, bits + np.where((error > 0) == (total > 0), 1, -1), bits).view(np.float64)
    return round_to(total, type)
