"""What the operations of `arith` and `math` do to arrays of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from qtranspose._mlir import ir
from qtranspose.elements import Element
from qtranspose.errors import QTransposeError
from qtranspose.reference import numbers as n
from qtranspose.reference.numbers import Number, Values

Operation = Callable[[ir.Operation, Element, list[Number]], Number]


class UnsupportedError(Exception):
    """The program has an operation or type that the reference does not know."""


class UndefinedError(QTransposeError):
    """What the program does on these inputs is not defined: it divides by zero or reads what is not there."""


def _integer(
    function: Callable[[Any, Any], Any],
    view: Callable[[Number], Any],
    linear: str = "",
    poison: Callable[[ir.Operation, Number, Number], Values] | None = None,
) -> Operation:
    """Make an operation on two integers, seen through `view`.

    Args:
        function: of two arrays.
        view: which numbers the operands stand for.
        linear: how errors of the operands carry over; if empty, a result of operands with errors is anything.
        poison: where the result is not defined.
    """

    def apply(op: ir.Operation, element: Element, operands: list[Number]) -> Number:
        a, b = operands
        with np.errstate(all="ignore"):
            value = n.wrap(element, np.asarray(function(view(a), view(b))).astype(np.int64))
            error: Values = n.EXACT
            if np.any(a.error != 0) or np.any(b.error != 0):
                if linear == "sum":
                    error = a.error + b.error
                elif linear == "product":
                    size_a, size_b = np.abs(n.integers(a)), np.abs(n.integers(b))
                    error = size_a * b.error + size_b * a.error + a.error * b.error
                elif linear == "extreme":
                    error = np.maximum(a.error, b.error)
                else:
                    error = np.where((a.error == 0) & (b.error == 0), 0.0, np.inf)
        if poison is not None and np.any(undefined := poison(op, a, b)):
            error = np.where(undefined, np.inf, error)
        return Number(element, value, error, n.EXACT)

    return apply


def _overflows(function: Callable[[Any, Any], Any]) -> Callable[[ir.Operation, Number, Number], Values]:
    """Make a test for results that `nsw` or `nuw` say do not occur."""

    def test(op: ir.Operation, a: Number, b: Number) -> Values:
        flags = str(op.attributes["overflowFlags"]) if "overflowFlags" in op.attributes else ""
        bits, wrong = a.element.bits, np.asarray(False)
        for flag, view, low, high in (
            ("nsw", n.integers, -(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1),
            ("nuw", n.unsigned, 0.0, 2.0**bits - 1),
        ):
            if flag in flags:
                # Exact where it matters up to 53 bits; beyond, what comes close counts as an overflow.
                exact = function(view(a).astype(np.float64), view(b).astype(np.float64))
                wrong = wrong | (exact < low) | (exact > high if bits <= 53 else exact >= high)
        return wrong

    return test


def _shift(function: Callable[[Any, Any], Any], view: Callable[[Number], Any]) -> Operation:
    def guarded(value: Any, amount: Any) -> Any:
        return function(value, np.minimum(amount.view(np.uint64), np.uint64(63)).astype(value.dtype))

    def too_far(op: ir.Operation, a: Number, b: Number) -> Values:
        return n.unsigned(b) >= np.uint64(b.element.bits)

    return _integer(guarded, view, poison=too_far)


def _divide(kind: str, view: Callable[[Number], Any]) -> Operation:
    def quotient(a: Any, b: Any) -> Any:
        if np.any(b == 0):
            raise UndefinedError("an integer is divided by zero")
        floor = a // b
        exact = floor * b == a
        if kind == "floor":
            return floor
        if kind == "ceil":
            return np.where(exact, floor, floor + np.ones_like(floor))
        negative = (a < 0) != (b < 0)
        truncated = np.where(negative & ~exact, floor + np.ones_like(floor), floor)
        return truncated if kind == "truncate" else a - truncated * b

    divide = _integer(quotient, view)

    def apply(op: ir.Operation, element: Element, operands: list[Number]) -> Number:
        a, b = operands
        if view is not n.unsigned and np.any((n.integers(b) == -1) & (n.integers(a) == -(1 << (element.bits - 1)))):
            raise UndefinedError("a quotient of integers overflows")
        return divide(op, element, operands)

    return apply


_SIGNED_ORDER = {2: np.less, 3: np.less_equal, 4: np.greater, 5: np.greater_equal}
_UNSIGNED_ORDER = {6: np.less, 7: np.less_equal, 8: np.greater, 9: np.greater_equal}


def _cmpi(op: ir.Operation, element: Element, operands: list[Number]) -> Number:
    a, b = operands
    predicate = ir.IntegerAttr(op.attributes["predicate"]).value
    view = n.unsigned if predicate in _UNSIGNED_ORDER else n.integers
    compare: Any = {0: np.equal, 1: np.not_equal, **_SIGNED_ORDER, **_UNSIGNED_ORDER}[predicate]
    value = compare(view(a), view(b))
    distance = np.abs(n.integers(a).astype(np.float64) - n.integers(b))
    return Number(element, value, _doubt(a, b, distance), n.EXACT)


def _doubt(a: Number, b: Number, distance: Values) -> Values:
    """1 where the errors of two numbers may turn around how they compare."""
    margin = np.asarray(a.error + b.error)
    return n.EXACT if np.all(margin == 0) else np.where((margin > 0) & ~(distance > margin), 1.0, 0.0)


def _cmpf(op: ir.Operation, element: Element, operands: list[Number]) -> Number:
    a, b = operands
    predicate = ir.IntegerAttr(op.attributes["predicate"]).value
    unordered = np.isnan(a.value) | np.isnan(b.value)
    compare = [None, np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal, None]
    with np.errstate(all="ignore"):
        certain = (np.isnan(a.value) & (a.error == 0)) | (np.isnan(b.value) & (b.error == 0))
        if predicate == 0:
            value = np.zeros(unordered.shape, np.bool_)
        elif predicate == 15:
            value = np.ones(unordered.shape, np.bool_)
        elif predicate in (7, 14):
            value = unordered if predicate == 14 else ~unordered
        elif predicate < 7:
            value = compare[predicate](a.value, b.value) & ~unordered  # type: ignore[misc]
        else:
            value = compare[predicate - 7](a.value, b.value) | unordered  # type: ignore[misc]
        doubt = np.where(certain, 0.0, _doubt(a, b, np.abs(a.value - b.value)))
        return Number(element, value, doubt if np.any(doubt) else n.EXACT, n.EXACT)


def _select(op: ir.Operation, element: Element, operands: list[Number]) -> Number:
    condition, a, b = operands
    chosen = condition.value
    value = np.where(chosen, a.value, b.value)
    error = np.where(chosen, a.error, b.error)
    size = np.where(chosen, a.size, b.size)
    if np.any(condition.error != 0):
        with np.errstate(all="ignore"):
            apart = np.abs(a.value.astype(np.float64) - b.value.astype(np.float64)) + a.error + b.error
        error = np.where(condition.error != 0, np.nan_to_num(apart, nan=np.inf, posinf=np.inf), error)
        size = np.where(condition.error != 0, np.maximum(a.size, b.size), size)
    return Number(element, value, error, size)


def _from_integer(view: Callable[[Number], Any]) -> Operation:
    def apply(op: ir.Operation, element: Element, operands: list[Number]) -> Number:
        (a,) = operands
        value = view(a).astype(np.float64)
        format = n.Format.of(element)
        if np.all(a.error == 0) and np.all(np.abs(value) <= 1 / format.unit):
            with np.errstate(all="ignore"):
                return Number.exact(element, value.astype(element.dtype).astype(np.float64))
        return n.rounded(element, value, a.error, np.abs(value) + a.error)

    return apply


def _to_integer(op: ir.Operation, element: Element, operands: list[Number]) -> Number:
    """Truncate towards zero; what the type does not hold is poison, as is NaN: anything."""
    (a,) = operands
    whole = n.step(a, np.trunc)
    low, high = element.range
    if op.name == "arith.fptosi":
        low, high = -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1
    elif op.name == "arith.fptoui":
        low, high = 0, (1 << element.bits) - 1
    fits = np.isfinite(whole.value) & (whole.value >= low) & (whole.value <= high)
    value = np.where(fits, whole.value, 0).astype(np.float64)
    exact = value.astype(np.uint64).view(np.int64) if low == 0 and element.bits == 64 else value.astype(np.int64)
    error = np.where(fits, whole.error, np.inf)
    return Number(element, n.wrap(element, exact), error if np.any(error) else n.EXACT, n.EXACT)


def assume(op: ir.Operation, operands: Sequence[Number], result: Number) -> Number:
    """Take into account what the fast-math flags of an operation promise and allow."""
    flags = str(op.attributes["fastmath"]) if "fastmath" in op.attributes else ""
    if not flags or "none" in flags or not result.is_float:
        return result
    fast = "fast>" in flags
    if (fast or "afn" in flags) and op.name.startswith("math."):
        raise UnsupportedError("approximate functions")
    if (fast or "arcp" in flags) and op.name == "arith.divf":
        # The reciprocal is rounded first.
        result = n.rounded(result.element, result.value, result.error, result.size)
    broken = np.asarray(False)
    for number in (*operands, result):
        if number.is_float and (fast or "nnan" in flags):
            broken = broken | np.isnan(number.value)
        if number.is_float and (fast or "ninf" in flags):
            broken = broken | np.isinf(number.value)
    return replace(result, error=np.where(broken, np.inf, result.error)) if np.any(broken) else result


def _resize(view: Callable[[Number], Any]) -> Operation:
    def apply(op: ir.Operation, element: Element, operands: list[Number]) -> Number:
        (a,) = operands
        return Number(element, n.wrap(element, np.asarray(view(a)).astype(np.int64)), a.error, n.EXACT)

    return apply


def _bitcast(op: ir.Operation, element: Element, operands: list[Number]) -> Number:
    (a,) = operands
    if np.any(a.error != 0):
        raise UnsupportedError("arith.bitcast of a number that rounding may change")
    return from_bits(element, to_bits(a))


def to_bits(number: Number) -> Values:
    """Return the bits of each element as uint64."""
    if not number.is_float:
        return n.unsigned(number)
    with np.errstate(all="ignore"):
        narrow = number.value.astype(number.element.dtype)
    return narrow.view(f"u{narrow.dtype.itemsize}").astype(np.uint64)


def from_bits(element: Element, bits: Values) -> Number:
    """Return the numbers that uint64 bits stand for."""
    if element.kind == "float":
        narrow = bits.astype(f"u{element.dtype.itemsize}").view(element.dtype)
        with np.errstate(all="ignore"):
            return Number.exact(element, narrow.astype(np.float64))
    return Number.exact(element, n.wrap(element, bits.view(np.int64)))


def _float(function: Callable[..., Number]) -> Operation:
    return lambda op, element, operands: function(*operands)


def _monotone(function: Callable[[Values], Values]) -> Operation:
    return lambda op, element, operands: n.unary(operands[0], function)


def _bounded(function: Callable[[Values], Values], slope: float) -> Operation:
    return lambda op, element, operands: n.unary(operands[0], function, monotone=False, slope=slope)


def _stepwise(function: Callable[[Values], Values]) -> Operation:
    return lambda op, element, operands: n.step(operands[0], function)


def _extreme(function: Callable[[Values, Values], Values]) -> Operation:
    return lambda op, element, operands: n.choose_extreme(operands[0], operands[1], function)


def _negate(op: ir.Operation, element: Element, operands: list[Number]) -> Number:
    return n.exact_unary(operands[0], np.negative)


def _absolute(op: ir.Operation, element: Element, operands: list[Number]) -> Number:
    (a,) = operands
    if a.is_float:
        return n.exact_unary(a, np.abs)
    return replace(a, value=n.wrap(element, np.abs(n.integers(a))))


def _power(op: ir.Operation, element: Element, operands: list[Number]) -> Number:
    base, exponent = operands
    if not exponent.is_float:
        powers = np.unique(n.integers(exponent))
        if powers.size == 1 and 0 <= powers[0] <= 8 and not np.any(exponent.error):
            result = Number.exact(element, np.ones(base.shape))
            for _ in range(int(powers[0])):
                result = n.multiply(result, base)
            return result
    if np.any(base.error != 0) or np.any(exponent.error != 0):
        raise UnsupportedError(f"{op.name} of numbers that rounding may change")
    with np.errstate(all="ignore"):
        value = np.power(base.value, exponent.value.astype(np.float64))
    return n.rounded(element, value, n.EXACT, np.abs(value), n.LIBRARY_ULPS)


def _half_away(value: Values) -> Values:
    return np.sign(value) * np.floor(np.abs(value) + 0.5)


_ERF = np.vectorize(math.erf, otypes=[np.float64])

OPERATIONS: dict[str, Operation] = {
    "arith.addf": _float(n.add),
    "arith.subf": _float(lambda a, b: n.add(a, b, -1)),
    "arith.mulf": _float(n.multiply),
    "arith.divf": _float(n.divide),
    "arith.negf": _negate,
    "arith.maximumf": _extreme(np.maximum),
    "arith.minimumf": _extreme(np.minimum),
    "arith.maxnumf": _extreme(np.fmax),
    "arith.minnumf": _extreme(np.fmin),
    "arith.extf": lambda op, element, operands: n.convert(operands[0], element),
    "arith.truncf": lambda op, element, operands: n.convert(operands[0], element),
    "arith.sitofp": _from_integer(n.integers),
    "arith.uitofp": _from_integer(n.unsigned),
    "arith.fptosi": _to_integer,
    "arith.fptoui": _to_integer,
    "arith.addi": _integer(np.add, n.integers, "sum", _overflows(np.add)),
    "arith.subi": _integer(np.subtract, n.integers, "sum", _overflows(np.subtract)),
    "arith.muli": _integer(np.multiply, n.integers, "product", _overflows(np.multiply)),
    "arith.divsi": _divide("truncate", n.integers),
    "arith.divui": _divide("floor", n.unsigned),
    "arith.remsi": _divide("remainder", n.integers),
    "arith.remui": _divide("remainder", n.unsigned),
    "arith.floordivsi": _divide("floor", n.integers),
    "arith.ceildivsi": _divide("ceil", n.integers),
    "arith.ceildivui": _divide("ceil", n.unsigned),
    "arith.andi": _integer(np.bitwise_and, n.unsigned),
    "arith.ori": _integer(np.bitwise_or, n.unsigned),
    "arith.xori": _integer(np.bitwise_xor, n.unsigned),
    "arith.shli": _shift(np.left_shift, n.unsigned),
    "arith.shrsi": _shift(np.right_shift, n.integers),
    "arith.shrui": _shift(np.right_shift, n.unsigned),
    "arith.maxsi": _integer(np.maximum, n.integers, "extreme"),
    "arith.minsi": _integer(np.minimum, n.integers, "extreme"),
    "arith.maxui": _integer(np.maximum, n.unsigned, "extreme"),
    "arith.minui": _integer(np.minimum, n.unsigned, "extreme"),
    "arith.extsi": _resize(n.integers),
    "arith.extui": _resize(n.unsigned),
    "arith.trunci": _resize(n.integers),
    "arith.index_cast": _resize(n.integers),
    "arith.index_castui": _resize(n.unsigned),
    "arith.cmpi": _cmpi,
    "arith.cmpf": _cmpf,
    "arith.select": _select,
    "arith.bitcast": _bitcast,
    "math.absf": _absolute,
    "math.absi": _absolute,
    "math.exp": _monotone(np.exp),
    "math.exp2": _monotone(np.exp2),
    "math.expm1": _monotone(np.expm1),
    "math.log": _monotone(np.log),
    "math.log2": _monotone(np.log2),
    "math.log1p": _monotone(np.log1p),
    "math.sqrt": _monotone(np.sqrt),
    "math.rsqrt": _monotone(lambda x: 1 / np.sqrt(x)),
    "math.tanh": _monotone(np.tanh),
    "math.erf": _monotone(_ERF),
    "math.atan": _monotone(np.arctan),
    "math.sin": _bounded(np.sin, 1),
    "math.cos": _bounded(np.cos, 1),
    "math.powf": _power,
    "math.fpowi": _power,
    "math.roundeven": _stepwise(np.rint),
    "math.round": _stepwise(_half_away),
    "math.floor": _stepwise(np.floor),
    "math.ceil": _stepwise(np.ceil),
    "math.trunc": _stepwise(np.trunc),
}
