"""What `qt.trace` says of a weight is what the program computes.

The description is read by an interpreter in NumPy (words, fields, steps; nothing of the expression), and its result
compared with the traced value itself, returned by the program in place of its outputs. The interpreter also checks that
every operand varies along the groups that the description names, and nowhere else. A sample of the corpus runs by
default; `QTRANSPOSE_FULL=1` runs everything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest
import qtranspose as qt
from forms.catalog import CATALOG, DERIVED, Entry
from mlir import ir
from mlir.dialects import func
from qtranspose.elements import Array, Element
from qtranspose.trace import DequantDescription, DequantStep, Storage, TraceLeaf

execution = pytest.importorskip("qtranspose.execution")

FULL = os.environ.get("QTRANSPOSE_FULL") == "1"


def corpus() -> list[Entry]:
    """The first instance of every family and some of the derived programs, or all."""
    if FULL:
        return [*CATALOG, *DERIVED]
    first = {entry.family: entry for entry in reversed(CATALOG)}
    rng = np.random.default_rng(5)
    return [*reversed(first.values()), *(DERIVED[i] for i in rng.choice(len(DERIVED), 60, replace=False))]


class Interpreter:
    """Computes a described tensor from the arrays of its leaves."""

    def __init__(self, shape: tuple[int, ...], leaves: dict[ir.Value, Array]) -> None:
        self.shape = shape
        self.leaves = leaves
        self.grid = np.indices(shape, sparse=True)

    def read(self, leaf: TraceLeaf) -> Array:
        """The element of the leaf at every position."""
        array = self.leaves[leaf.value] if leaf.value is not None else constant_array(leaf.constant)
        names = {f"d{i}": axis for i, axis in enumerate(self.grid)}
        indices = [eval(i.replace("floordiv", "//").replace("mod", "%"), {}, names) for i in leaf.indices]
        return np.broadcast_to(array[tuple(indices)], self.shape)

    def stored(self, storage: Storage) -> Array:
        """The stored number at every position, integers as int64."""
        words = self.read(storage.leaf)
        if isinstance(storage.type, ir.FloatType):
            return words.view(Element.of(storage.type).dtype)
        element = np.zeros((1,) * len(self.shape), np.int64)
        for lane in storage.lanes:
            element = element * lane.count + self.grid[lane.axis] // lane.stride % lane.count
        shift = np.asarray(storage.bit_offsets, np.int64)[element]
        # Up to the top of 64 bits, then down again: zeros or copies of the top bit come in. A signless number has
        # nobody to read its top bit; in MLIR it is signed then.
        field = words.astype(np.int64) << (64 - storage.bits - shift)
        unsigned = field.view(np.uint64) >> np.uint64(64 - storage.bits)
        return unsigned.view(np.int64) if storage.signed is False else field >> (64 - storage.bits)

    def number(self, description: DequantDescription) -> Array:
        if description.kind == "concatenation":
            bounds = zip(description.breaks, description.breaks[1:], strict=False)
            parts = []
            for (low, high), part in zip(bounds, description.parts, strict=True):
                shape = tuple(high - low if i == description.axis else s for i, s in enumerate(self.shape))
                parts.append(np.broadcast_to(Interpreter(shape, self.leaves).number(part), shape))
            return np.concatenate(parts, description.axis)
        if description.kind == "constant":
            integer = isinstance(description.value, int)
            number = np.array(description.value, np.int64 if integer else dtype(description.constant.type))
        else:
            assert description.kind == "stored"
            number = self.stored(description.storage)
            self.check_axes(description, number)
        for step in description.steps:
            number = self.step(step, number)
        return number

    def step(self, step: DequantStep, x: Array) -> Array:
        to = dtype(step.type)
        if step.operation == "cast":
            return x.astype(to)
        if step.operation == "negate":
            return -x
        if step.operation == "lookup":
            return self.leaves[step.operand.storage.leaf.value][x]
        p = self.number(step.operand)
        p, x = (a.astype(np.int64 if np.issubdtype(to, np.integer) else to) for a in (p, x))
        result = {
            "add": lambda: x + p,
            "subtract": lambda: x - p,
            "subtract-from": lambda: p - x,
            "multiply": lambda: x * p,
            "divide": lambda: x / p,
        }[step.operation]()
        return wrapped(result, step.type) if np.issubdtype(to, np.integer) else result

    def check_axes(self, description: DequantDescription, number: Array) -> None:
        """The number is the same throughout each group, and not along an axis that is named."""
        if 0 in self.shape or description.axes is None:
            return
        sizes = {group.axis: group.size for group in description.axes}
        for axis, extent in enumerate(self.shape):
            starts = np.arange(extent) // sizes.get(axis, extent) * sizes.get(axis, extent)
            assert np.array_equal(np.take(number, starts, axis), number)
            if axis in sizes and len(set(starts)) > 1 and (number != number.flat[0]).any():
                assert not np.array_equal(np.take(number, np.zeros_like(starts), axis), number)


def constant_array(constant: ir.Attribute) -> Array:
    to = Element.of(constant.type.element_type).dtype
    try:
        numbers = list(constant)
    except TypeError:  # the stock package does not read sub-byte integers
        numbers = [int(n) for n in re.findall(r"-?\d+", str(constant).partition(" : ")[0])]
    return np.array(numbers).astype(to).reshape(constant.type.shape)


def wrapped(number: Array, type_: ir.Type) -> Array:
    """An int64 array cut to an integer type."""
    if not isinstance(type_, ir.IntegerType):
        return number
    low = 0 if type_.is_unsigned else -(1 << (type_.width - 1))
    return number if type_.width == 64 else (number - low) % (1 << type_.width) + low


def dtype(type_: ir.Type) -> np.dtype:
    return np.dtype(np.int64) if isinstance(type_, ir.IndexType) else Element.of(type_).dtype


def weights(function: ir.OpView) -> Iterator[ir.Value]:
    """Operands of the contractions in the function's own block."""
    for op in function.regions[0].blocks[0]:
        iterators = op.attributes.get("iterator_types", "")
        named = re.match(r"linalg\..*(mat|vec|conv|contract)", op.operation.name)
        if named or "reduction" in str(iterators):
            yield from (v for v in list(op.operands)[:-1] if isinstance(v.type, ir.RankedTensorType))


def leaves(description: DequantDescription) -> Iterator[TraceLeaf]:
    if description.storage:
        yield description.storage.leaf
    for inner in (*(step.operand for step in description.steps if step.operand), *description.parts):
        yield from leaves(inner)


def is_complete(description: DequantDescription) -> bool:
    """Whether the description alone says what the number is."""
    inner = [step.operand for step in description.steps if step.operand and step.operation != "lookup"]
    gathered = description.storage is not None and description.storage.leaf.map is None
    kinds = ("stored", "constant", "concatenation")
    return description.kind in kinds and not gathered and all(map(is_complete, (*inner, *description.parts)))


def execute(module: ir.Module, function: ir.OpView, values: list[ir.Value], inputs: tuple[Array, ...]) -> list[Array]:
    """Run the function with these values as its results."""
    block = function.regions[0].blocks[0]
    with ir.Location.unknown(module.context):
        block.operations[len(block.operations) - 1].operation.erase()
        with ir.InsertionPoint(block):
            func.ReturnOp(values)
        arguments = [argument.type for argument in block.arguments]
        kind = ir.FunctionType.get(arguments, [value.type for value in values])
    function.attributes["function_type"] = ir.TypeAttr.get(kind)
    results = execution.compile(module)(*inputs)
    return list(results) if isinstance(results, tuple) else [results]


# PITFALL 26
@pytest.mark.parametrize("entry", corpus(), ids=lambda entry: entry.name)
def test_described_weight_is_the_computed_one(entry: Entry) -> None:
    program = entry.build()
    with ir.Context():
        module = ir.Module.parse(program.mlir)
        function = next(op for op in module.body.operations if op.operation.name == "func.func")
        traced = [trace for trace in map(qt.trace, dict.fromkeys(weights(function))) if trace.description]
        described = [trace for trace in traced if is_complete(trace.description)]
        if not described:
            pytest.skip("nothing here is described completely")
        # One call for everything: the traced values, and what is stored in the leaves.
        found = [leaf.value for trace in described for leaf in leaves(trace.description) if leaf.value is not None]
        needed = list(dict.fromkeys(found))
        local = function.regions[0].blocks[0]
        if any(block_of(value) != local for value in needed):
            pytest.skip("a leaf belongs to another function")
        try:
            arrays = execute(module, function, [*(trace.value for trace in described), *needed], program.inputs)
        except qt.QTransposeError as error:
            pytest.skip(f"not executable: {error}")
        stored = dict(zip(needed, arrays[len(described) :], strict=True))
        for trace, computed in zip(described, arrays, strict=False):
            with np.errstate(all="ignore"):
                number = Interpreter(computed.shape, stored).number(trace.description)
            number = np.broadcast_to(number, computed.shape).astype(np.float64)
            half = computed.dtype in (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
            np.testing.assert_allclose(
                number, computed.astype(np.float64), rtol=2e-2 if half else 1e-6, atol=1e-6, err_msg=str(trace)
            )


def block_of(value: ir.Value) -> ir.Block:
    return value.owner if isinstance(value, ir.BlockArgument) else value.owner.operation.block
