"""Moves and conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from qtranspose.gpu.ptx.instructions.registry import Modifiers, decodes, group_of
from qtranspose.gpu.ptx.machine import Execute, Machine, source, target
from qtranspose.gpu.ptx.memory import LOCAL_WINDOW, SHARED_WINDOW
from qtranspose.gpu.ptx.parser import Group, Instruction
from qtranspose.gpu.ptx.types import TYPES, Array, PTXError, ScalarType, round_to

_ROUND_TO_INTEGER: dict[str, Callable[..., Any]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


@decodes("mov")
def _move(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    type = modifiers.type()
    modifiers.done()
    to, value = instruction.operands
    if isinstance(value, Group):
        return _pack(to, group_of(value), type)
    if isinstance(to, Group):
        return _unpack(group_of(to), value, type)
    read, write = source(value, type), target(to, type)
    return lambda machine: write(machine, read(machine))


def _parts(operands: tuple[Any, ...], type: ScalarType) -> ScalarType:
    name = f"b{type.bits // len(operands)}"
    if name not in TYPES:
        raise PTXError("unexpected operands")
    return TYPES[name]


def _pack(to: Any, operands: tuple[Any, ...], type: ScalarType) -> Execute:
    part = _parts(operands, type)
    reads = [source(operand, part) for operand in operands]
    write = target(to, TYPES[f"b{type.bits}"])

    def execute(machine: Machine) -> None:
        whole = np.zeros((), type.storage)
        for position, read in enumerate(reads):
            whole = np.asarray(whole | read(machine).astype(type.storage) << type.storage.type(position * part.bits))
        write(machine, whole)

    return execute


def _unpack(operands: tuple[Any, ...], value: Any, type: ScalarType) -> Execute:
    part = _parts(operands, type)
    read = source(value, TYPES[f"b{type.bits}"])
    writes = [target(operand, part) for operand in operands]

    def execute(machine: Machine) -> None:
        whole = read(machine)
        for position, write in enumerate(writes):
            write(machine, np.asarray(whole >> type.storage.type(position * part.bits)).astype(part.storage))

    return execute


@decodes("cvta")
def _convert_address(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    to_space = modifiers.flag("to")
    window = {"global": 0, "const": 0, "param": 0, "shared": SHARED_WINDOW, "local": LOCAL_WINDOW}[
        modifiers.one_of("global", "const", "param", "shared", "local")
    ]
    type = modifiers.type()
    modifiers.done()
    read, write = source(instruction.operands[1], type), target(instruction.operands[0], type)
    offset = np.uint64(window)
    if to_space:
        return lambda machine: write(machine, np.asarray(read(machine) - offset))
    return lambda machine: write(machine, np.asarray(read(machine) + offset))


@decodes("cvt")
def _convert(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    types = modifiers.types()
    if len(types) != 2:
        raise PTXError("not two types")
    to, type = types
    rounding = modifiers.choice("rn", "rz", "rm", "rp", *_ROUND_TO_INTEGER)
    saturate = modifiers.flag("sat")
    modifiers.done()
    write = target(instruction.operands[0], to)
    if to.lanes == 2:
        if rounding != "rn" or type.name != "f32" or saturate:
            raise PTXError("unsupported conversion")
        high, low = (source(operand, type) for operand in instruction.operands[1:3])

        def pack(machine: Machine) -> None:
            halves = np.broadcast_arrays(low(machine), high(machine))
            write(machine, round_to(np.stack(halves, axis=-1), to))

        return pack

    read = source(instruction.operands[1], type)
    convert = _conversion(type, to, rounding, saturate)
    return lambda machine: write(machine, convert(read(machine)))


def _conversion(type: ScalarType, to: ScalarType, rounding: str | None, saturate: bool) -> Callable[[Array], Array]:
    if type.is_float and to.is_float:
        return _float_to_float(type, to, rounding, saturate)
    if type.is_float:
        if rounding not in _ROUND_TO_INTEGER:
            raise PTXError("unsupported rounding")
        integral = _ROUND_TO_INTEGER[rounding]
        return lambda value: _float_to_integer(np.asarray(integral(value.astype(np.float64))), to)
    if to.is_float:
        return _integer_to_float(to, rounding, saturate)
    if rounding is not None:
        raise PTXError("unsupported rounding")
    if saturate:
        limits = np.iinfo(to.dtype)

        def clamp(value: Array) -> Array:
            low = max(int(limits.min), int(np.iinfo(value.dtype).min))
            high = min(int(limits.max), int(np.iinfo(value.dtype).max))
            return np.clip(value, value.dtype.type(low), value.dtype.type(high)).astype(to.dtype)

        return clamp
    return lambda value: value.astype(to.dtype)


def _float_to_float(type: ScalarType, to: ScalarType, rounding: str | None, saturate: bool) -> Callable[[Array], Array]:
    integral = _ROUND_TO_INTEGER.get(rounding or "")
    if rounding not in (None, "rn") and not integral:
        return _directed(type, to, rounding or "", saturate)

    def convert(value: Array) -> Array:
        # bf16 has no rounding functions of its own; every type is exact in float64.
        result = np.asarray(integral(value.astype(np.float64))) if integral else value
        result = round_to(result, to)
        if saturate:
            result = np.nan_to_num(np.clip(result, to.dtype.type(0), to.dtype.type(1)), nan=0.0)
        return result

    return convert


def _directed(type: ScalarType, to: ScalarType, rounding: str, saturate: bool) -> Callable[[Array], Array]:
    """Round toward zero (`rz`), minus (`rm`) or plus infinity (`rp`); only for types that NumPy can step through."""
    if saturate or to.name not in ("f16", "f32"):
        raise PTXError("unsupported rounding")

    def convert(value: Array) -> Array:
        near = np.asarray(round_to(value, to))
        exact, got = value.astype(np.float64), near.astype(np.float64)
        down = exact > 0 if rounding == "rz" else np.full(exact.shape, rounding == "rm")
        below, above = np.array(-np.inf, to.dtype), np.array(np.inf, to.dtype)
        near = np.where(down & (got > exact), np.nextafter(near, below), near)
        return np.where(~down & (got < exact), np.nextafter(near, above), near)

    return convert


def _integer_to_float(to: ScalarType, rounding: str | None, saturate: bool) -> Callable[[Array], Array]:
    if rounding != "rn" or saturate:
        raise PTXError("unsupported rounding")
    if to.name == "bf16":
        # Integers of up to 32 bits are exact in float64.
        return lambda value: round_to(value.astype(np.float64), to)
    return lambda value: value.astype(to.dtype)


def _float_to_integer(integral: Array, to: ScalarType) -> Array:
    """Convert integral float64 values: out-of-range ones become the nearest integer, NaN zero."""
    limits = np.iinfo(to.dtype)
    # The largest 64-bit integers are not float64 numbers: the bounds are one step outside.
    low, high = float(limits.min), float(limits.max) + (1.0 if to.bits < 64 else 0.0)
    inside = (integral >= low) & (integral < high)
    converted = np.where(inside, integral, 0.0).astype(to.dtype)
    clamped = np.where(integral >= high, to.dtype.type(limits.max), converted)
    return np.where(integral < low, to.dtype.type(limits.min), clamped).astype(to.dtype)
