"""Matrix instructions of a warp: `ldmatrix` and `mma.sync`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qtranspose.gpu.ptx.instructions.loads import load, thread_addresses
from qtranspose.gpu.ptx.instructions.registry import Modifiers, decodes, group_of
from qtranspose.gpu.ptx.instructions.warps import full_warps
from qtranspose.gpu.ptx.machine import WARP, Execute, Machine, source, target
from qtranspose.gpu.ptx.memory import check_alignment
from qtranspose.gpu.ptx.parser import Instruction, Operand
from qtranspose.gpu.ptx.types import TYPES, Array, PTXError, ScalarType

_LANES = np.arange(WARP)


@decodes("ldmatrix")
def _load_matrices(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    for name in ("sync", "aligned", "m8n8"):
        modifiers.one_of(name)
    count = int(modifiers.one_of("x1", "x2", "x4")[1:])
    transposed = modifiers.flag("trans")
    modifiers.one_of("shared", "shared::cta")
    modifiers.type()
    modifiers.done()
    writes = [target(operand, TYPES["b32"]) for operand in group_of(instruction.operands[0])]
    addresses = thread_addresses(instruction.operands[1], "shared")
    if len(writes) != count:
        raise PTXError("unexpected operands")

    def execute(machine: Machine) -> None:
        warps = full_warps(machine)
        rows = addresses(machine).reshape(warps, WARP)
        check_alignment(rows[:, : 8 * count].reshape(-1), 16, "shared load")
        for matrix, write in enumerate(writes):
            # Lanes 8 * matrix and up hold the addresses of its rows; lane i gets elements 2i and 2i + 1.
            starts = rows[:, 8 * matrix : 8 * matrix + 8]
            if not transposed:
                words = starts[:, _LANES // 4] + (4 * (_LANES % 4)).astype(np.uint64)
                value = load(machine, "shared", words.reshape(-1), 4, 1)[0]
            else:
                column = (2 * (_LANES // 4)).astype(np.uint64)
                value = np.zeros(machine.count, np.uint32)
                for half in range(2):
                    places = starts[:, 2 * (_LANES % 4) + half] + column
                    element = load(machine, "shared", places.reshape(-1), 2, 1)[0]
                    value |= element.astype(np.uint32) << np.uint32(16 * half)
            write(machine, value)

    return execute


@dataclass(frozen=True)
class _Fragment:
    """How the lanes of a warp hold a matrix in registers.

    Attributes:
        rows: and `columns`: of the matrix.
        places: (row, column) of each element of a lane, in order: two arrays of shape [lanes, elements].
    """

    rows: int
    columns: int
    places: tuple[Array, Array]


def _fragment(rows: int, columns: int, packed: int, column_major: bool) -> _Fragment:
    """Return the layout of an operand of `mma.sync`.

    A register holds `packed` consecutive elements; groups of four lanes share a row. The registers of a lane go through
    the 8-row blocks first and then through the column blocks. Matrix B is the same with rows and columns exchanged.
    """
    if column_major:
        flipped = _fragment(columns, rows, packed, False)
        return _Fragment(rows, columns, (flipped.places[1], flipped.places[0]))
    row_blocks, column_blocks = rows // 8, columns // (4 * packed)
    places = [
        (block_row * 8 + _LANES // 4, block_column * 4 * packed + _LANES % 4 * packed + element)
        for block_column in range(column_blocks)
        for block_row in range(row_blocks)
        for element in range(packed)
    ]
    return _Fragment(rows, columns, (np.stack([p[0] for p in places], 1), np.stack([p[1] for p in places], 1)))


@decodes("mma")
def _multiply_matrices(instruction: Instruction) -> Execute:
    modifiers = Modifiers(instruction)
    for name in ("sync", "aligned"):
        modifiers.one_of(name)
    shape = modifiers.one_of("m16n8k8", "m16n8k16", "m16n8k32")
    for name in ("row", "col"):
        modifiers.one_of(name)
    types = modifiers.types()
    modifiers.done()
    if len(types) != 4 or types[0] != types[3]:
        raise PTXError("unsupported types")
    result, left, right, _ = types
    depth = int(shape.partition("k")[2])
    floats = left == right and left.name in ("f16", "bf16") and depth in (8, 16)
    integers = {left.name, right.name} <= {"s8", "u8"} and depth in (16, 32)
    if not ((floats and result.name in ("f32", "f16")) or (integers and result.name == "s32")):
        raise PTXError("unsupported types")
    if result.name == "f16" and left.name != "f16":
        raise PTXError("unsupported types")

    packed = 32 // left.bits
    a_layout = _fragment(16, depth, packed, column_major=False)
    b_layout = _fragment(depth, 8, packed, column_major=True)
    c_layout = _fragment(16, 8, 2, column_major=False)
    to, a, b, c = (group_of(operand) for operand in instruction.operands)
    per_register = 2 if result.name == "f16" else 1
    register = TYPES["b32"] if per_register == 2 else result
    writes = [target(operand, register) for operand in to]
    wide = np.float64 if floats else np.int64

    def execute(machine: Machine) -> None:
        warps = full_warps(machine)
        x = _matrices(machine, warps, a, left, a_layout).astype(wide)
        y = _matrices(machine, warps, b, right, b_layout).astype(wide)
        z = _matrices(machine, warps, c, result, c_layout).astype(wide)
        # Exact products and a sum with one rounding: at least as accurate as hardware, which truncates in between.
        total = (x @ y + z).astype(result.dtype)
        rows, columns = c_layout.places
        elements = np.ascontiguousarray(total[:, rows, columns]).reshape(warps * WARP, -1)
        bits = elements.view(register.storage)
        for position, write in enumerate(writes):
            write(machine, np.ascontiguousarray(bits[:, position]).view(register.dtype))

    return execute


def _matrices(
    machine: Machine, warps: int, operands: tuple[Operand, ...], type: ScalarType, layout: _Fragment
) -> Array:
    """Assemble one matrix per warp from the registers of its lanes."""
    words = [machine.spread(source(operand, TYPES["b32"])(machine)) for operand in operands]
    elements = np.stack(words, axis=1).view(type.dtype).reshape(warps, WARP, -1)
    rows, columns = layout.places
    if elements.shape[2] != rows.shape[1]:
        raise PTXError("unexpected operands")
    matrix = np.zeros((warps, layout.rows, layout.columns), type.dtype)
    matrix[:, rows, columns] = elements
    return matrix
