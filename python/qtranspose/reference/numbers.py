"""Numbers with a bound on what rounding may do to them: running error analysis over whole arrays.

A float is its value in float64, a bound `error` on how far an execution in the declared types may be from it, and a
`size`: what the absolute values of everything that was added up to it come to. Each operation rounds its exact result
to a unit roundoff u of its type (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.3). Where
the textbook takes u times the magnitude of a partial sum, `size` is taken, which is no smaller in any other order of
the sum or with a factor pulled out of it: the bound holds for every reassociation and distribution, n terms of size s
giving the familiar n * u * s.

Integers are exact and wrap around. One made from a float that rounding may push over a step has the error of that
step, and so has what is computed from it.

Not covered: overflow of a float to infinity while the exact value is finite. It makes the error infinite there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from qtranspose.elements import Element

Floats = NDArray[np.float64]
Values = NDArray[Any]
EXACT: Floats = np.asarray(0.0)

# Unit roundoff, smallest subnormal, largest finite value. f64 is evaluated in itself: its own error counts twice.
_EXTRA = {"f64": 2.0}
# Bound on the error of library functions, in units of the last place; glibc documents at most 2 for those used.
LIBRARY_ULPS = 4


def float_info(element: Element) -> Any:
    """Return NumPy's description of a float type, of those of `ml_dtypes` too."""
    finfo: Any = ml_dtypes.finfo
    return finfo(element.dtype)


@dataclass(frozen=True)
class Format:
    """What rounding to a float type does.

    Attributes:
        unit: the unit roundoff, relative.
        tiny: the smallest positive number, the absolute error where results underflow.
        largest: the largest finite number.
    """

    unit: float
    tiny: float
    largest: float

    @classmethod
    def of(cls, element: Element) -> Format:
        """Describe a float element type."""
        info = float_info(element)
        factor = _EXTRA.get(element.name, 1.0)
        return cls(float(info.eps) / 2 * factor, float(info.smallest_subnormal) * factor, float(info.max))


@dataclass(frozen=True)
class Number:
    """An array of one element type.

    Attributes:
        element: the type.
        value: float64 for floats, int64 for integers (sign-extended; unsigned types zero-extended below 64 bits), bool
            for `i1`.
        error: bound on the distance to what an execution has; broadcasts against `value`.
        size: of a float, no less than its magnitude in any order of evaluation; broadcasts against `value`.
    """

    element: Element
    value: Values
    error: Floats
    size: Floats

    @classmethod
    def exact(cls, element: Element, value: Values) -> Number:
        """Make a number that every execution agrees on."""
        if element.kind == "float":
            value = np.asarray(value, np.float64)
            return cls(element, value, EXACT, np.abs(value))
        return cls(element, value, EXACT, EXACT)

    @property
    def is_float(self) -> bool:
        """Whether this is a float."""
        return self.element.kind == "float"

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.value.shape

    def map(self, move: Callable[[Values], Values]) -> Number:
        """Apply a movement of elements to the value and its bounds."""

        def moved(bound: Floats) -> Floats:
            return bound if bound.ndim == 0 else move(np.broadcast_to(bound, self.shape))

        return replace(self, value=move(self.value), error=moved(self.error), size=moved(self.size))

    def filled(self) -> Number:
        """Return the same with bounds of full shape that can be written to."""
        return replace(
            self,
            value=np.array(self.value),
            error=np.array(np.broadcast_to(self.error, self.shape)),
            size=np.array(np.broadcast_to(self.size, self.shape)),
        )


def rounded(element: Element, value: Values, error: Values, size: Values, ulps: float = 1) -> Number:
    """Make the float that a computed `value` is rounded to.

    Infinities and NaNs are either certain or unknown: there `error` must be 0 where the operands leave no doubt.
    """
    format = Format.of(element)
    with np.errstate(all="ignore"):
        total = error + ulps * format.unit * (size + error) + format.tiny
        # Beyond the largest number an execution has infinity, and what follows is anything.
        total = np.where(size + total <= format.largest, total, np.inf)
        finite = np.isfinite(value)
        if not finite.all():
            total = np.where(finite, total, np.where(error == 0, 0.0, np.inf))
    return Number(element, np.asarray(value, np.float64), total, np.asarray(size, np.float64))


def _doubt(certain: Callable[[], Values], error: Values, value: Values) -> Values:
    """Return `error` where the value is finite; elsewhere 0 where it is `certain`, and infinite where not."""
    finite = np.isfinite(value)
    error = np.where(np.isnan(error), np.inf, error)
    return error if finite.all() else np.where(finite, error, np.where(certain(), 0.0, np.inf))


def _is_nan(number: Number) -> Values:
    """Whether an element is certainly not a number."""
    nan: Values = np.isnan(number.value) & (number.error == 0)
    return nan


def _has_sign(number: Number) -> Values:
    """Whether the error of an element leaves its sign, and that it is not zero, certain."""
    certain: Values = (number.error == 0) | (np.isfinite(number.error) & (np.abs(number.value) > number.error))
    return certain


def convert(number: Number, element: Element) -> Number:
    """Convert between float types; exact where the new one holds all of the old one."""
    old, new = Format.of(number.element), Format.of(element)
    if new.unit <= old.unit and new.tiny <= old.tiny and new.largest >= old.largest:
        return replace(number, element=element)
    result = rounded(element, number.value, number.error, number.size)
    if np.all(number.error == 0):
        with np.errstate(all="ignore"):
            value = number.value.astype(element.dtype).astype(np.float64)
        return Number.exact(element, value)
    return result


def add(a: Number, b: Number, sign: int = 1) -> Number:
    """Add floats, or with `sign` -1 subtract."""
    with np.errstate(all="ignore"):
        value = a.value + sign * b.value

        def certain() -> Values:
            # An infinity stays what it is whatever finite is added.
            infinite = ~(np.isfinite(a.value) & np.isfinite(b.value)) & np.isfinite(a.error) & np.isfinite(b.error)
            return _is_nan(a) | _is_nan(b) | infinite

        return rounded(a.element, value, _doubt(certain, a.error + b.error, value), a.size + b.size)


def multiply(a: Number, b: Number) -> Number:
    """Multiply floats."""
    with np.errstate(all="ignore"):
        value = a.value * b.value

        def certain() -> Values:
            infinite = ~(np.isfinite(a.value) & np.isfinite(b.value)) & _has_sign(a) & _has_sign(b)
            return _is_nan(a) | _is_nan(b) | infinite

        error = a.size * b.error + b.size * a.error + a.error * b.error
        error = _doubt(certain, error, value)
        result = rounded(a.element, value, error, a.size * b.size)
        # A zero that every execution has makes another.
        zero = (a.size == 0) | (b.size == 0)
        if not zero.any():
            return result
        return replace(result, error=np.where(zero & (value == 0) & (error == 0), 0.0, result.error))


def divide(a: Number, b: Number) -> Number:
    """Divide floats; the error is infinite where the divisor may be zero."""
    with np.errstate(all="ignore"):
        value = a.value / b.value
        least = np.abs(b.value) - b.error
        error = np.where(least > 0, (a.error + np.abs(value) * b.error) / least, np.inf)

        def certain() -> Values:
            # An infinity divided, or a number divided by zero.
            infinite: Values = (~np.isfinite(a.value) | (b.value == 0)) & _has_sign(a) & _has_sign(b)
            return _is_nan(a) | _is_nan(b) | infinite

        error = _doubt(certain, error, value)
        # A quotient of a sum is as large as the sum of the quotients.
        size = np.where(least > 0, a.size / np.maximum(least, np.finfo(np.float64).tiny), np.abs(value))
        return rounded(a.element, value, error, np.maximum(size, np.abs(value)))


def unary(number: Number, function: Callable[[Values], Values], monotone: bool = True, slope: float = 1) -> Number:
    """Apply a library function: a monotone one, or one that nowhere rises faster than `slope`."""
    with np.errstate(all="ignore"):
        value = function(number.value)
        if np.all(number.error == 0):
            spread: Values = EXACT
        elif monotone:
            spread = np.maximum(
                np.abs(function(number.value + number.error) - value),
                np.abs(function(number.value - number.error) - value),
            )
        else:
            spread = slope * number.error
        error = _doubt(lambda: np.asarray(number.error == 0), np.where(number.error == 0, 0.0, spread), value)
        return rounded(number.element, value, error, np.abs(value), LIBRARY_ULPS)


def exact_unary(number: Number, function: Callable[[Values], Values]) -> Number:
    """Apply a function without rounding that nowhere stretches distances: negation, magnitude."""
    return replace(number, value=function(number.value))


def choose_extreme(a: Number, b: Number, function: Callable[[Values, Values], Values]) -> Number:
    """Take the larger or smaller of two numbers; where their errors may turn them around, with the larger error."""
    with np.errstate(all="ignore"):
        value = function(a.value, b.value)
        is_a, is_b = (function(x.value - x.error, y.value + y.error) == x.value - x.error for x, y in ((a, b), (b, a)))
        is_a &= function(a.value + a.error, b.value - b.error) == a.value + a.error
        is_b &= function(b.value + b.error, a.value - a.error) == b.value + b.error

    def of_winner(x: Floats, y: Floats) -> Floats:
        return np.where(is_a, x, np.where(is_b, y, np.maximum(x, y)))

    reach = of_winner(a.error, b.error)
    error = _doubt(lambda: _is_nan(a) | _is_nan(b) | np.isfinite(reach), reach, value)
    return replace(a, value=value, error=error, size=of_winner(a.size, b.size))


def step(number: Number, function: Callable[[Values], Values]) -> Number:
    """Round to integers, still as a float; where the error reaches over a step, the result may be the next one."""
    with np.errstate(all="ignore"):
        value = function(number.value)
        error = np.maximum(
            np.abs(function(number.value + number.error) - value), np.abs(function(number.value - number.error) - value)
        )
    error = np.nan_to_num(error, nan=0.0, posinf=np.inf)
    return Number(number.element, value, error, np.abs(value) + error)


def wrap(element: Element, value: Values) -> Values:
    """Reduce integers to the range of their type."""
    if element.bits == 1 and element.signedness == "none":
        odd: Values = np.asarray(value).astype(np.int64) % 2 != 0
        return odd
    value = np.asarray(value, np.int64)
    if element.bits >= 64:
        return value
    modulus = 1 << element.bits
    value = value & np.int64(modulus - 1)
    if element.signedness == "unsigned":
        return value
    wrapped: Values = np.where(value >> np.int64(element.bits - 1) != 0, value - np.int64(modulus), value)
    return wrapped


def integers(number: Number) -> NDArray[np.int64]:
    """Return the value as signed integers; `i1` true is -1, as for any signed type of one bit."""
    value = number.value
    return -value.astype(np.int64) if value.dtype == np.bool_ else value.astype(np.int64)


def unsigned(number: Number) -> NDArray[np.uint64]:
    """Return the value read without a sign."""
    mask = np.uint64((1 << number.element.bits) - 1)
    return integers(number).view(np.uint64) & mask
