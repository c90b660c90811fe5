"""The trace of a tensor: which stored elements each of its elements is computed from, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from qtranspose._mlir import extension, ir
from qtranspose.errors import QTransposeError

Value: TypeAlias = "ir.Value[Any]"


@dataclass(frozen=True)
class TraceLeaf:
    """A place that the elements of the traced tensor are read from.

    Attributes:
        value: the tensor or scalar that is read; None for a constant that the program does not hold as a tensor, such
            as the scales of a `!quant` type.
        constant: that constant, else None.
        indices: the index of the element in each dim, printed over the dims `d0, d1, ...` of the traced tensor. `?` is
            an index that affine expressions cannot say; for a gather, indices depend on other leaves.
        map: the same as an affine map, from the dims of the traced tensor to those of the leaf; None for a gather and
            where an index is `?`.
        kind: `parameter` for constants and arguments, `runtime` for what the program computes.
        stop_reason: the stable name of why tracing did not go further, of a `runtime` leaf; None for parameters.
    """

    value: Value | None
    constant: ir.Attribute | None
    indices: tuple[str, ...]
    map: ir.AffineMap | None
    kind: Literal["parameter", "runtime"]
    stop_reason: str | None


@dataclass(frozen=True)
class DequantTrace:
    """What one element of a tensor is, without computing the tensor.

    Attributes:
        value: the traced tensor.
        expression: the element at `[d0, d1, ...]` as an expression over leaves.
        leaves: what the expression reads, operands first; each distinct read once.
        refusal: the stable name of why tracing stopped before the parameters, for the first leaf where it did; None if
            everything comes from parameters.
    """

    value: Value
    expression: str
    leaves: tuple[TraceLeaf, ...]
    refusal: str | None

    def __str__(self) -> str:
        """Return the trace in one line."""
        return self.expression


def trace(value: Value) -> DequantTrace:
    """Trace a tensor to the leaves that its elements are computed from.

        matmul = ...  # an operation
        print(qt.trace(matmul.operands[1]))

    Tracing looks through whatever only moves or transforms single elements: elementwise ops, transposes, broadcasts,
    reshapes, slices, concatenations, casts, calls of private functions. It changes nothing and never fails: what cannot
    be traced is a leaf that says why.

    Args:
        value: a result or block argument of ranked tensor type. It must be alive, and its module must stay alive as
            long as values of the trace are used: values of the stock package neither keep their module alive nor
            know when a pass has erased their operation.

    Raises:
        QTransposeError: if `value` is not a ranked tensor, or is the result of an erased operation.
    """
    if not isinstance(value, ir.Value):
        raise QTransposeError(f"trace: expected an mlir.ir.Value, not {type(value).__name__}")
    if isinstance(value, ir.OpResult):
        try:
            value.owner  # noqa: B018  (raises if the operation was erased)
        except RuntimeError as error:
            raise QTransposeError(f"trace: {error}") from error
    if not isinstance(value.type, ir.RankedTensorType):
        raise QTransposeError(f"trace: expected a ranked tensor, not a value of type {value.type}")
    expression, leaves = extension.trace(value)
    found = tuple(_leaf(*leaf) for leaf in leaves)
    refusal = next((leaf.stop_reason for leaf in found if leaf.stop_reason), None)
    return DequantTrace(value, expression, found, refusal)


def _leaf(
    source: Value | ir.Attribute,
    map: ir.AffineMap | None,
    indices: tuple[str, ...],
    stop_reason: str | None,
) -> TraceLeaf:
    value, constant = (source, None) if isinstance(source, ir.Value) else (None, source)
    return TraceLeaf(value, constant, indices, map, "runtime" if stop_reason else "parameter", stop_reason)
