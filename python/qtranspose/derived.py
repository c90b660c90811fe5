"""Constants that were computed from others at compile time, and where they came from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qtranspose._mlir import ir

_ATTRIBUTE = "qtranspose.derived"


@dataclass(frozen=True)
class QuantizationAxes:
    """What a scale, zero point or codebook of a derived weight varies along.

    Attributes:
        role: "scale", "zero_point", "codebook" or "other".
        axes: dims of the weight in its new order.
        groups: for each axis, how many consecutive positions share one value.
    """

    role: str
    axes: tuple[int, ...]
    groups: tuple[int, ...]


@dataclass(frozen=True)
class DerivedConstant:
    """A constant that a pass derived, such as the transpose of a weight.

    Attributes:
        value: the constant.
        source: the name of the resource or global it was made from; None for inline data.
        source_type: the type of what it was made from.
        map: from the coordinates of the constant to those of its source.
        quantization: of a weight that the constant stores, in the order in which a stored number is dequantized.
    """

    value: ir.Value[ir.Type]
    source: str | None
    source_type: ir.RankedTensorType
    map: ir.AffineMap
    quantization: tuple[QuantizationAxes, ...]


def _read(op: ir.Operation) -> DerivedConstant:
    entries = ir.DictAttr(op.attributes[_ATTRIBUTE])
    steps = []
    for step in ir.ArrayAttr(entries["quantization"]) if "quantization" in entries else ():
        parts = ir.DictAttr(step)
        steps.append(
            QuantizationAxes(
                role=ir.StringAttr(parts["role"]).value,
                axes=tuple(ir.DenseI64ArrayAttr(parts["axes"])),
                groups=tuple(ir.DenseI64ArrayAttr(parts["groups"])),
            )
        )
    return DerivedConstant(
        value=op.results[0],
        source=ir.StringAttr(entries["source"]).value if "source" in entries else None,
        source_type=ir.RankedTensorType(ir.TypeAttr(entries["source_type"]).value),
        map=ir.AffineMapAttr(entries["map"]).value,
        quantization=tuple(steps),
    )


def _operations(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region:
            for inner in block:
                yield inner.operation
                yield from _operations(inner.operation)


def derived_constants(module: ir.Module) -> list[DerivedConstant]:
    """Return the derived constants of `module` in program order, as `qtranspose-static-lhs-to-rhs` leaves them."""
    return [_read(op) for op in _operations(module.operation) if _ATTRIBUTE in op.attributes]
