"""The trace of a tensor: which stored elements each of its elements is computed from, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from qtranspose._mlir import extension, ir
from qtranspose.errors import QTransposeError

Value: TypeAlias = "ir.Value[Any]"
ElementType: TypeAlias = "ir.IntegerType | ir.FloatType"


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
        stop_reason: the stable name of why tracing did not go further, of a `runtime` leaf; None for parameters,
            gathers and scalars.
    """

    value: Value | None
    constant: ir.Attribute | None
    indices: tuple[str, ...]
    map: ir.AffineMap | None
    kind: Literal["parameter", "runtime"]
    stop_reason: str | None


@dataclass(frozen=True)
class AxisGroup:
    """Along `axis`, one number per `size` consecutive positions; the last group may be shorter."""

    axis: int
    size: int


@dataclass(frozen=True)
class Lane:
    """Elements of one word: `count` of them, `stride` positions of `axis` apart."""

    axis: int
    stride: int
    count: int


@dataclass(frozen=True)
class Storage:
    """Where the bits of a number lie and what they are.

    Attributes:
        leaf: what holds the words.
        type: the stored number: a float type, or an integer type as wide as the field (`ui4`, `si8`); signless where
            nothing says how the top bit is read.
        word_type: the element type of the leaf.
        lanes: which elements share a word, outermost first; empty if a word holds one.
        bit_offsets: the lowest bit of each element of a word, in the order of the elements.
        order: the element at each place of a word, lowest bits first: `(0, 1)` is the low nibble first, AWQ has
            `(0, 2, 4, 6, 1, 3, 5, 7)`. Empty if elements do not lie at multiples of their width.
    """

    leaf: TraceLeaf
    type: ElementType
    word_type: ElementType
    lanes: tuple[Lane, ...]
    bit_offsets: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def bits(self) -> int:
        """Bits of one number."""
        return self.type.width

    @property
    def signed(self) -> bool | None:
        """Whether the number is signed; None for floats and where nothing reads the top bit."""
        if not isinstance(self.type, ir.IntegerType) or self.type.is_signless:
            return None
        return self.type.is_signed

    @property
    def per_word(self) -> int:
        """Numbers that a word holds."""
        return len(self.bit_offsets)

    @property
    def packed(self) -> bool:
        """Whether a word is more than one number."""
        return self.bits != self.word_type.width


Operation: TypeAlias = Literal["cast", "add", "subtract", "subtract-from", "multiply", "divide", "negate", "lookup"]


@dataclass(frozen=True)
class DequantStep:
    """One operation on the way from the stored number to the element.

    Attributes:
        operation: what is done to the number `x` with the operand `p`: `x + p` (`add`), `x - p`, `p - x`
            (`subtract-from`), `x * p`, `x / p`, `-x`, element `x` of the table `p` (`lookup`), or the conversion of `x`
            to a float type (`cast`).
        type: the type of the result, in which sums and products are computed. Signless integers are signed here; they
            wrap around.
        operand: described like a weight, since it may be packed or quantized itself; None for `cast` and `negate`.
    """

    operation: Operation
    type: ir.Type
    operand: DequantDescription | None


@dataclass(frozen=True)
class DequantDescription:
    """How a number is made from stored bits: a weight, or a scale, zero point or codebook that is applied to it.

    Attributes:
        kind: `stored`, `constant` or `scalar` (a run-time SSA scalar), each followed by `steps`; `concatenation` of
            `parts`; `expression` if it is none of these and only the expression says what it is.
        expression: all of it, over the dims of the traced tensor.
        type: the type of the result.
        storage: where the number is stored, if it is.
        constant: its value, if it is a constant.
        axes: along what the stored number varies; empty for one number per tensor, None if it varies irregularly.
        steps: from the number to the result, in order.
        axis: the axis of a concatenation.
        breaks: where its parts begin and end.
        parts: its parts.
    """

    kind: Literal["stored", "constant", "scalar", "concatenation", "expression"]
    expression: str
    type: ir.Type
    storage: Storage | None
    constant: ir.Attribute | None
    axes: tuple[AxisGroup, ...] | None
    steps: tuple[DequantStep, ...]
    axis: int | None = None
    breaks: tuple[int, ...] = ()
    parts: tuple[DequantDescription, ...] = ()

    @property
    def value(self) -> int | float | None:
        """The constant as a number."""
        return None if self.constant is None else self.constant.value  # type: ignore[attr-defined]

    @property
    def scales(self) -> tuple[DequantDescription, ...]:
        """What the number is multiplied by, in order."""
        return self._operands("multiply")

    @property
    def zero_points(self) -> tuple[DequantDescription, ...]:
        """What is subtracted before the first scale; constants that are added count with the opposite sign."""
        return self._operands("subtract", scaled=False)

    @property
    def offsets(self) -> tuple[DequantDescription, ...]:
        """What is added after the first scale, such as the minimum of `q * scale + min`; `- min` is only in `steps`."""
        return self._operands("add", scaled=True)

    @property
    def codebook(self) -> DequantDescription | None:
        """The table that the number is an index of."""
        return next(iter(self._operands("lookup")), None)

    @property
    def compute_type(self) -> ir.Type | None:
        """The type in which the first scale is applied; without scales, the type converted to."""
        of = {step.operation: step.type for step in reversed(self.steps)}
        return of.get("multiply", of.get("divide", of.get("cast")))

    def _operands(self, operation: Operation, scaled: bool | None = None) -> tuple[DequantDescription, ...]:
        first = next((i for i, step in enumerate(self.steps) if step.operation in ("multiply", "divide")), None)
        return tuple(
            step.operand
            for i, step in enumerate(self.steps)
            if step.operation == operation
            and step.operand is not None
            and (scaled is None or scaled == (first is not None and i > first))
        )


@dataclass(frozen=True)
class DequantTrace:
    """What one element of a tensor is, without computing the tensor.

    Attributes:
        value: the traced tensor.
        expression: the element at `[d0, d1, ...]` as an expression over leaves.
        leaves: what the expression reads, operands first; each distinct read once.
        refusal: the stable name of why tracing stopped before the parameters, for the first leaf where it did; None if
            everything comes from parameters.
        description: the expression read as a dequantization; None if it reads no quantized storage.
        line: the description in one line, else the expression.
    """

    value: Value
    expression: str
    leaves: tuple[TraceLeaf, ...]
    refusal: str | None
    description: DequantDescription | None
    line: str

    def __str__(self) -> str:
        return self.line


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
            know when their operation has been erased.

    Raises:
        QTransposeError: if `value` is not a ranked tensor.
    """
    if not isinstance(value, ir.Value):
        raise QTransposeError(f"trace: expected an mlir.ir.Value, not {type(value).__name__}")
    if not isinstance(value.type, ir.RankedTensorType):
        raise QTransposeError(f"trace: expected a ranked tensor, not a value of type {value.type}")
    expression, leaves, description, line = extension.trace(value)
    found = tuple(_leaf(*leaf) for leaf in leaves)
    refusal = next((leaf.stop_reason for leaf in found if leaf.stop_reason), None)
    described = None if description is None else _description(*description)
    return DequantTrace(value, expression, found, refusal, described, line)


def _leaf(
    source: Value | ir.Attribute,
    map: ir.AffineMap | None,
    indices: tuple[str, ...],
    is_parameter: bool,
    stop_reason: str | None,
) -> TraceLeaf:
    value, constant = (source, None) if isinstance(source, ir.Value) else (None, source)
    return TraceLeaf(value, constant, indices, map, "parameter" if is_parameter else "runtime", stop_reason)


def _description(
    kind: Any,
    expression: str,
    type: ir.Type,
    storage: Any,
    constant: ir.Attribute | None,
    axes: Any,
    steps: Any,
    concatenation: Any,
) -> DequantDescription:
    axis, breaks, parts = concatenation or (None, (), ())
    return DequantDescription(
        kind,
        expression,
        type,
        storage and _storage(*storage),
        constant,
        None if axes is None else tuple(AxisGroup(*group) for group in axes),
        tuple(DequantStep(name, to, operand and _description(*operand)) for name, to, operand in steps),
        axis,
        breaks,
        tuple(_description(*part) for part in parts),
    )


def _storage(leaf: Any, type: ElementType, word_type: ElementType, lanes: Any, *places: tuple[int, ...]) -> Storage:
    return Storage(_leaf(*leaf), type, word_type, tuple(Lane(*lane) for lane in lanes), *places)
