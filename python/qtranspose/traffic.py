"""Bytes that a program moves between its stored weights and the contractions that use them.

For every operand of a contraction whose producers lead back to a stored weight (a constant of rank 2 or more, or an
argument of rank 2 or more with integer or 8-bit float elements):

* *leaf bytes*: of the tensors at the end of the path, the weight and its scales, zero points and tables, read once;
* *moved bytes*: twice the result of every op on the path that writes a tensor (any structured op, concatenation,
  insertion, padding, arithmetic on whole tensors): it is written and read again. Reshapes, slices and casts are free. A
  producer marked `qtranspose.tile_fused` is free too: code generation computes it per tile, and no buffer of that size
  exists;
* *transposes*: ops on the path that permute the dims of a tensor.

`(leaf + moved) / leaf` is 1 where nothing but the stored bytes is read. A dynamic size counts as 7. Nothing is counted
for an operand that depends on a reduction, a call or control flow: it is not stored, or not visibly so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

from mlir.dialects import linalg, quant

from qtranspose._mlir import ir

TILE_FUSED = "qtranspose.tile_fused"
DYNAMIC_SIZE = 7
# Smaller constants are coefficients of a computation rather than weights.
SMALLEST_WEIGHT = 128

# Their stubs in 22.1.8 do not know all that the extensions define.
_LINALG: Any = linalg
_QUANT: Any = quant
_VIEWS = {"tensor.expand_shape", "tensor.collapse_shape", "tensor.cast", "tensor.reshape", "tensor.bitcast"}
_VIEWS |= {"tensor.extract_slice"}
_COPIES = {"tensor.concat", "tensor.insert_slice", "tensor.pad"}


@dataclass(frozen=True)
class Traffic:
    """Bytes and transposes on paths from weights to contractions; sums of several paths too."""

    weights: int = 0
    leaf_bytes: float = 0.0
    moved_bytes: float = 0.0
    transposes: int = 0

    @property
    def bytes(self) -> float:
        """All bytes."""
        return self.leaf_bytes + self.moved_bytes

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.weights + other.weights,
            self.leaf_bytes + other.leaf_bytes,
            self.moved_bytes + other.moved_bytes,
            self.transposes + other.transposes,
        )


@dataclass(frozen=True)
class WeightPath:
    """One operand of a contraction that holds a weight."""

    contraction: ir.Operation
    operand: int
    traffic: Traffic


def total(paths: Iterable[WeightPath]) -> Traffic:
    """Sum the traffic of some paths."""
    return sum((path.traffic for path in paths), Traffic())


def weight_paths(op: ir.Operation | ir.Module) -> Iterator[WeightPath]:
    """Find every operand of a contraction inside `op` that holds a weight, in program order."""
    for contraction in contractions(op):
        for number in range(len(contraction.operands) - 1):
            traffic = _follow(contraction.operands[number])
            if traffic:
                yield WeightPath(contraction, number, traffic)


def contractions(op: ir.Operation | ir.Module) -> Iterator[ir.Operation]:
    """Find every contraction inside `op`, in program order."""
    pending = [op.operation]
    while pending:
        current = pending.pop()
        if is_contraction(current):
            yield current
        nested = [inner.operation for region in current.regions for block in region for inner in block]
        pending.extend(reversed(nested))


def is_contraction(op: ir.Operation) -> bool:
    """Whether `op` is a structured op that sums products: a matmul of any name, a convolution, or a generic."""
    if not _reduces(op):
        return False
    body = {inner.operation.name for inner in op.regions[0].blocks[0]}
    return bool(body & {"arith.mulf", "arith.muli"} and body & {"arith.addf", "arith.addi"})


@dataclass
class _Path:
    """What was met on the way up from an operand."""

    leaves: list[tuple[float, bool]] = field(default_factory=list)
    moved: float = 0.0
    transposes: int = 0


def _follow(operand: ir.Value[Any]) -> Traffic | None:
    """Walk the producers of `operand`; None if no weight, or something that is not stored, stands behind it."""
    path = _Path()
    pending: list[ir.Value[Any]] = [operand]
    seen: set[ir.Operation] = set()
    while pending:
        value = pending.pop()
        op = None if isinstance(value, ir.BlockArgument) else _owner(value)
        if op is None or op.name == "arith.constant":
            if op is None or op not in seen:
                _add_leaf(path, value, constant=op is not None)
            if op is not None:
                seen.add(op)
            continue
        if op in seen or op.name == "tensor.empty":
            continue
        seen.add(op)
        inputs = list(op.operands)
        if op.name in _VIEWS:
            pending.append(inputs[0])
        elif op.name == "linalg.fill":
            continue
        elif op.name.startswith("linalg.") and not _reduces(op) and not is_contraction(op):
            if TILE_FUSED not in op.attributes:
                path.moved += 2 * num_bytes(op.results[0])
            path.transposes += is_transpose(op)
            pending.extend(reversed(inputs[:-1]))
        elif op.name in _COPIES or (op.name.startswith(("quant.", "arith.")) and _shape(op.results[0]) is not None):
            if op.name != "quant.scast":
                path.moved += 2 * num_bytes(op.results[0])
            pending.extend(reversed(inputs))
        elif op.name.startswith(("quant.", "arith.")):
            continue
        else:
            return None
    weights = [size for size, is_weight in path.leaves if is_weight]
    if max(weights, default=0) < SMALLEST_WEIGHT:
        return None
    return Traffic(1, sum(size for size, _ in path.leaves), path.moved, path.transposes)


def _add_leaf(path: _Path, value: ir.Value[Any], constant: bool) -> None:
    shape = _shape(value)
    if shape is None:
        return
    element = ir.ShapedType(value.type).element_type
    is_stored = constant or isinstance(element, ir.IntegerType) or str(element).startswith("f8")
    path.leaves.append((num_bytes(value), is_stored and len(shape) >= 2))


def _owner(value: ir.Value[Any]) -> ir.Operation:
    owner = value.owner
    return owner if isinstance(owner, ir.Operation) else owner.operation


def _maps(op: ir.Operation) -> list[ir.AffineMap]:
    """Return the indexing maps of a structured op, outputs last; none for other ops."""
    if not op.name.startswith("linalg.") or not op.regions:
        return []
    maps = _LINALG.get_indexing_maps(op)
    return [] if maps is None else [ir.AffineMapAttr(map).value for map in maps]


def _reduces(op: ir.Operation) -> bool:
    """Whether a structured op has a loop that its result does not."""
    maps = _maps(op)
    if not maps:
        return False
    written = {str(result) for result in maps[-1].results}
    return len(written) < maps[-1].n_dims


def is_transpose(op: ir.Operation) -> bool:
    """Whether `op` permutes the dims of a tensor and does nothing else, by name or as a copying generic."""
    if op.name == "linalg.transpose":
        return True
    if not _maps(op) or len(op.regions[0].blocks[0].operations) != 1:
        return False
    *inputs, output = [[str(result) for result in map.results] for map in _maps(op)]
    return len(output) > 1 and any(sorted(map) == sorted(output) and map != output for map in inputs)


def _shape(value: ir.Value[Any]) -> list[int] | None:
    if not isinstance(value.type, ir.RankedTensorType):
        return None
    return [
        DYNAMIC_SIZE if value.type.is_dynamic_dim(dim) else value.type.get_dim_size(dim)
        for dim in range(value.type.rank)
    ]


def num_bytes(value: ir.Value[Any]) -> float:
    """Bytes of a ranked tensor, sub-byte elements packed; a `!quant` element counts as what it is stored in."""
    shape = _shape(value)
    return 0.0 if shape is None else prod(shape) * _element_bits(ir.ShapedType(value.type).element_type) / 8


def _element_bits(element: ir.Type) -> int:
    if isinstance(element, (ir.IntegerType, ir.FloatType)):
        return element.width
    if isinstance(element, ir.IndexType):
        return 64
    if str(element).startswith("!quant."):
        return int(_QUANT.QuantizedType(element).storage_type_integral_width)
    return 32
