"""Logic, shifts and other operations on bits."""

from __future__ import annotations

import numpy as np

from qtranspose.gpu.ptx.instructions.arithmetic import elementwise
from qtranspose.gpu.ptx.instructions.registry import Modifiers, decodes
from qtranspose.gpu.ptx.machine import Execute, Machine, source, target
from qtranspose.gpu.ptx.parser import Immediate, Instruction
from qtranspose.gpu.ptx.types import TYPES, Array, PTXError, ScalarType

_LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert}
_WORD = TYPES["b32"]


@decodes(*_LOGIC)
def _logic(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    type = modifiers.type()
    modifiers.done()
    arity = 1 if instruction.opcode == "not" else 2
    return elementwise(instruction, arity, type, _LOGIC[instruction.opcode])


@decodes("shl", "shr")
def _shift(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    type = modifiers.type()
    modifiers.done()
    left = instruction.opcode == "shl"
    value = source(instruction.operands[1], type)
    amount = source(instruction.operands[2], _WORD)
    write = target(instruction.operands[0], type)
    last = np.uint32(type.bits - 1)

    def execute(machine: Machine) -> None:
        bits, by = value(machine), amount(machine)
        clamped = np.minimum(by, last).astype(type.dtype)
        shifted = np.asarray(bits << clamped if left else bits >> clamped)
        if (by > last).any() and not (type.is_signed and not left):
            shifted = np.where(by > last, type.dtype.type(0), shifted)
        write(machine, shifted)

    return execute


@decodes("shf")
def _funnel_shift(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    left = modifiers.one_of("l", "r") == "l"
    clamp = modifiers.one_of("clamp", "wrap") == "clamp"
    if modifiers.type().bits != 32:
        raise PTXError("unsupported type")
    modifiers.done()
    reads = [source(operand, _WORD) for operand in instruction.operands[1:]]
    write = target(instruction.operands[0], _WORD)

    def execute(machine: Machine) -> None:
        low, high, amount = (read(machine).astype(np.uint64) for read in reads)
        amount = np.minimum(amount, np.uint64(32)) if clamp else amount & np.uint64(31)
        both = high << np.uint64(32) | low
        shifted = (both << amount) >> np.uint64(32) if left else both >> amount
        write(machine, np.asarray(shifted).astype(np.uint32))

    return execute


@decodes("lop3")
def _three_input_logic(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    modifiers.type()
    modifiers.done()
    table = instruction.operands[4]
    if not isinstance(table, Immediate):
        raise PTXError("the table is not a number")
    entries = int(table.text, 0)
    reads = [source(operand, _WORD) for operand in instruction.operands[1:4]]
    write = target(instruction.operands[0], _WORD)

    def execute(machine: Machine) -> None:
        values = [read(machine) for read in reads]
        result = np.zeros((), np.uint32)
        for entry in range(8):
            if entries >> entry & 1:
                a, b, c = (value if entry >> bit & 1 else ~value for value, bit in zip(values, (2, 1, 0), strict=True))
                result = np.asarray(result | (a & b & c))
        write(machine, result)

    return execute


@decodes("prmt")
def _permute_bytes(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    modifiers.type()
    modifiers.done()
    reads = [source(operand, _WORD) for operand in instruction.operands[1:4]]
    write = target(instruction.operands[0], _WORD)

    def execute(machine: Machine) -> None:
        low, high, selectors = (read(machine) for read in reads)
        both = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
        result = np.zeros((), np.uint32)
        for byte in range(4):
            selector = selectors >> np.uint32(4 * byte)
            shift = (selector & np.uint32(7)).astype(np.uint64) * np.uint64(8)
            picked = ((both >> shift) & np.uint64(255)).astype(np.uint32)
            sign = np.where(picked & np.uint32(128), np.uint32(255), np.uint32(0))
            picked = np.where(selector & np.uint32(8), sign, picked)
            result = np.asarray(result | picked << np.uint32(8 * byte))
        write(machine, result)

    return execute


@decodes("bfe")
def _extract_field(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    type = modifiers.type()
    modifiers.done()
    storage = TYPES[f"u{type.bits}"]
    value = source(instruction.operands[1], storage)
    position, length = (source(operand, _WORD) for operand in instruction.operands[2:4])
    write = target(instruction.operands[0], storage)

    def execute(machine: Machine) -> None:
        bits = value(machine)
        start = (position(machine) & np.uint32(255)).astype(np.int64)
        count = (length(machine) & np.uint32(255)).astype(np.int64)
        field = np.asarray(_shifted_right(bits, start) & _ones(count, storage))
        if type.is_signed:
            sign = _shifted_right(bits, np.minimum(start + count - 1, type.bits - 1)) & storage.dtype.type(1)
            inside = np.minimum(count, np.maximum(type.bits - start, 0))
            field = np.where((sign != 0) & (count > 0), field | ~_ones(inside, storage), field)
        write(machine, field)

    return execute


def _shifted_right(bits: Array, by: Array) -> Array:
    width = 8 * bits.dtype.itemsize
    shifted = np.asarray(bits >> np.minimum(by, width - 1).astype(bits.dtype))
    return np.where(by < width, shifted, np.array(0, bits.dtype))


def _ones(count: Array, type: ScalarType) -> Array:
    """Return the number whose lowest `count` bits are set."""
    one = np.array(1, type.dtype)
    ones = (one << np.minimum(count, type.bits - 1).astype(type.dtype)) - one
    return np.where(count < type.bits, ones, ~np.array(0, type.dtype))


@decodes("popc")
def _count_bits(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    value = source(instruction.operands[1], modifiers.type())
    modifiers.done()
    write = target(instruction.operands[0], _WORD)
    return lambda machine: write(machine, np.asarray(np.bitwise_count(value(machine))).astype(np.uint32))


@decodes("clz")
def _leading_zeros(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    type = modifiers.type()
    modifiers.done()
    value = source(instruction.operands[1], type)
    write = target(instruction.operands[0], _WORD)

    def execute(machine: Machine) -> None:
        bits = value(machine)
        for shift in (1, 2, 4, 8, 16, 32):
            if shift < type.bits:
                bits = bits | bits >> bits.dtype.type(shift)
        write(machine, np.asarray(type.bits - np.bitwise_count(bits)).astype(np.uint32))

    return execute
