"""Arithmetic, comparison and selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qtranspose.gpu.ptx.instructions.registry import Modifiers, decodes
from qtranspose.gpu.ptx.machine import Execute, Machine, source, target
from qtranspose.gpu.ptx.parser import Group, Instruction
from qtranspose.gpu.ptx.types import TYPES, Array, PTXError, ScalarType, fused_multiply_add

Function = Callable[..., Any]


def elementwise(
    instruction: Instruction, arity: int, type: ScalarType, function: Function, flush: bool = False
) -> Execute:
    """Execute a function of `arity` operands, which follow the one that takes the result; all have one type.

    With `flush`, subnormal numbers are read and written as zero.
    """
    to, *operands = instruction.operands
    if len(operands) != arity:
        raise PTXError("unexpected operands")
    reads = [source(operand, type) for operand in operands]
    write = target(to, type)
    if flush:
        inner = function

        def function(*values: Array) -> Array:
            return _flush(inner(*map(_flush, values)))

    def execute(machine: Machine) -> None:
        result = np.asarray(function(*[read(machine) for read in reads]))
        write(machine, result if result.dtype == type.dtype else result.astype(type.dtype))

    return execute


def _flush(value: Array) -> Array:
    tiny = np.abs(value) < np.finfo(np.float32).tiny
    return np.where(tiny, np.copysign(np.float32(0), value), value)


def _float_modifiers(modifiers: Modifiers, type: ScalarType, *approximations: str) -> bool:
    """Take the modifiers that do not change a result here, and return whether subnormals are flushed.

    Approximate functions are computed exactly. Only rounding to nearest is known.
    """
    modifiers.choice("rn", *approximations)
    flush = modifiers.flag("ftz")
    if flush and type.name != "f32":
        raise PTXError("unknown modifier .ftz")
    return flush


def _operation(instruction: Instruction, arity: int, function: Function, *approximations: str) -> Execute:
    modifiers = Modifiers(instruction)
    type = modifiers.type()
    flush = False
    if type.is_float:
        flush = _float_modifiers(modifiers, type, *approximations)
    if type.is_float and type.bits > 16 and type.lanes == 1:
        function = _saturating(function) if modifiers.flag("sat") else function
    modifiers.done()
    return elementwise(instruction, arity, type, function, flush)


def _saturating(function: Function) -> Function:
    return lambda *values: np.nan_to_num(np.clip(function(*values), 0, 1), nan=0.0)


@decodes("add", "sub")
def _add(instruction: Instruction) -> Execute:
    return _operation(instruction, 2, np.add if instruction.opcode == "add" else np.subtract)


@decodes("mul")
def _multiply(instruction: Instruction) -> Execute:
    type = Modifiers(instruction).type()
    if type.is_float:
        return _operation(instruction, 2, np.multiply)
    return _integer_multiply(instruction, None)


@decodes("mad")
def _multiply_add(instruction: Instruction) -> Execute:
    if Modifiers(instruction).type().is_float:
        return _fma(instruction)
    return _integer_multiply(instruction, 3)


def _integer_multiply(instruction: Instruction, addend: int | None) -> Execute:
    """`mul` and `mad`: the low or high half of the product, or all of it."""
    modifiers = Modifiers(instruction)
    part = modifiers.one_of("lo", "hi", "wide")
    type = modifiers.type()
    modifiers.done()
    result = TYPES[f"{type.name[0]}{2 * type.bits}"] if part == "wide" else type
    operands = instruction.operands
    left, right = source(operands[1], type), source(operands[2], type)
    third = source(operands[addend], result) if addend else None
    write = target(operands[0], result)

    def execute(machine: Machine) -> None:
        a, b = left(machine), right(machine)
        product = _high_half(a, b, type) if part == "hi" else a.astype(result.dtype) * b.astype(result.dtype)
        write(machine, np.asarray(product + third(machine) if third else product))

    return execute


def _high_half(a: Array, b: Array, type: ScalarType) -> Array:
    if type.bits < 64:
        wide = np.dtype(f"{'i' if type.is_signed else 'u'}8")
        shifted = (a.astype(wide) * b.astype(wide)) >> wide.type(type.bits)
        return np.asarray(shifted.astype(type.dtype))
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x, y = a.view(np.uint64), b.view(np.uint64)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + ((x0 * y0) >> half)
    other = x0 * y1 + (middle & low)
    high = np.asarray(x1 * y1 + (middle >> half) + (other >> half))
    if type.is_signed:  # The product of the two's complements has these terms too many.
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return np.asarray(high).view(type.dtype)


@decodes("fma")
def _fma(instruction: Instruction) -> Execute:
    type = Modifiers(instruction).type()
    return _operation(instruction, 3, lambda a, b, c: fused_multiply_add(a, b, c, type))


@decodes("div")
def _divide(instruction: Instruction) -> Execute:
    type = Modifiers(instruction).type()
    if type.is_float:
        return _operation(instruction, 2, np.divide, "approx", "full")
    return _operation(instruction, 2, lambda a, b: _integer_quotient(a, b, type))


@decodes("rem")
def _remainder(instruction: Instruction) -> Execute:
    type = Modifiers(instruction).type()
    if type.is_float:
        raise PTXError("not an integer")
    return _operation(instruction, 2, lambda a, b: a - _integer_quotient(a, b, type) * b)


def _integer_quotient(a: Array, b: Array, type: ScalarType) -> Array:
    """Divide, truncating; the quotient by zero is not defined, and all ones here."""
    safe = np.where(b == 0, type.dtype.type(1), b)
    quotient = a // safe
    if type.is_signed:
        quotient = quotient + ((quotient < 0) & (quotient * safe != a))
    return np.where(b == 0, np.invert(type.dtype.type(0)), quotient).astype(type.dtype)


@decodes("min", "max")
def _extremum(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    type = modifiers.type()
    smallest = instruction.opcode == "min"
    if not type.is_float:
        modifiers.done()
        return elementwise(instruction, 2, type, np.minimum if smallest else np.maximum)
    flush = modifiers.flag("ftz")
    functions: dict[bool, Function] = {True: np.fmin, False: np.fmax}
    if modifiers.flag("NaN"):
        functions = {True: np.minimum, False: np.maximum}
    function = functions[smallest]
    modifiers.done()

    def extremum(a: Array, b: Array) -> Array:
        result = np.asarray(function(a, b))
        zeros = (result == 0) & (a == b)
        if zeros.any():  # -0 is less than +0.
            merge = np.logical_or if smallest else np.logical_and
            sign = np.where(merge(np.signbit(a), np.signbit(b)), -1.0, 1.0).astype(result.dtype)
            result = np.where(zeros, np.copysign(result, sign), result)
        return result

    return elementwise(instruction, 2, type, extremum, flush)


@decodes("abs")
def _absolute(instruction: Instruction) -> Execute:
    return _operation(instruction, 1, np.abs)


@decodes("neg")
def _negate(instruction: Instruction) -> Execute:
    return _operation(instruction, 1, np.negative)


@decodes("copysign")
def _copy_sign(instruction: Instruction) -> Execute:
    # The sign is that of the first operand.
    return _operation(instruction, 2, lambda a, b: np.copysign(b, a))


@decodes("sqrt")
def _square_root(instruction: Instruction) -> Execute:
    return _operation(instruction, 1, np.sqrt, "approx")


@decodes("rsqrt")
def _reciprocal_square_root(instruction: Instruction) -> Execute:
    return _operation(instruction, 1, lambda x: 1 / np.sqrt(x.astype(np.float64)), "approx")


@decodes("rcp")
def _reciprocal(instruction: Instruction) -> Execute:
    return _operation(instruction, 1, lambda x: x.dtype.type(1) / x, "approx")


_FUNCTIONS: dict[str, Function] = {"ex2": np.exp2, "lg2": np.log2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh}


@decodes(*_FUNCTIONS)
def _function(instruction: Instruction) -> Execute:
    return _operation(instruction, 1, _FUNCTIONS[instruction.opcode], "approx")


_COMPARISONS: dict[str, Function] = {
    "eq": np.equal,
    "ne": lambda a, b: (a < b) | (a > b),
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "equ": lambda a, b: ~((a < b) | (a > b)),
    "neu": np.not_equal,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: (a == a) & (b == b),
    "nan": lambda a, b: (a != a) | (b != b),
}
_UNSIGNED_NAMES = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_LOGIC: dict[str, Function] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


@decodes("setp")
def _compare(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    name = modifiers.one_of(*_COMPARISONS, *_UNSIGNED_NAMES)
    logic = modifiers.choice(*_LOGIC)
    type = modifiers.type()
    flush = type.is_float and _float_modifiers(modifiers, type)
    modifiers.done()
    if flush or type.lanes != 1:
        raise PTXError("unsupported type")
    compare = _COMPARISONS[_UNSIGNED_NAMES.get(name, name)]
    operands = instruction.operands
    destinations = operands[0].operands if isinstance(operands[0], Group) else (operands[0],)
    if len(destinations) > 2 or len(operands) != (4 if logic else 3):
        raise PTXError("unexpected operands")
    left, right = source(operands[1], type), source(operands[2], type)
    predicate = TYPES["pred"]
    third = source(operands[3], predicate) if logic else None
    writes = [target(destination, predicate) for destination in destinations]

    def execute(machine: Machine) -> None:
        holds = np.asarray(compare(left(machine), right(machine)))
        results = [holds, ~holds]
        if third and logic:
            results = [_LOGIC[logic](result, third(machine)) for result in results]
        for write, result in zip(writes, results, strict=False):
            write(machine, np.asarray(result))

    return execute


@decodes("selp")
def _select(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    type = modifiers.type()
    modifiers.done()
    operands = instruction.operands
    yes, no = source(operands[1], type), source(operands[2], type)
    condition = source(operands[3], TYPES["pred"])
    write = target(operands[0], type)

    def execute(machine: Machine) -> None:
        write(machine, np.where(condition(machine), yes(machine), no(machine)))

    return execute


@decodes("dp4a")
def _dot_product(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    types = modifiers.types()
    modifiers.done()
    if len(types) != 2 or any(type.bits != 32 or type.name[0] == "b" for type in types):
        raise PTXError("unsupported types")
    operands = instruction.operands
    result = TYPES["s32" if any(type.is_signed for type in types) else "u32"]
    reads = [source(operand, TYPES["b32"]) for operand in operands[1:3]]
    addend = source(operands[3], result)
    write = target(operands[0], result)

    def execute(machine: Machine) -> None:
        total = addend(machine).astype(np.int64)
        packed = [read(machine) for read in reads]
        for byte in range(4):
            factors = []
            for value, type in zip(packed, types, strict=True):
                part = ((value >> np.uint32(8 * byte)) & np.uint32(255)).astype(np.uint8)
                factors.append(part.view(np.int8 if type.is_signed else np.uint8).astype(np.int64))
            total = total + factors[0] * factors[1]
        write(machine, np.asarray(total).astype(result.dtype))

    return execute
