"""Evaluation of linalg-on-tensors programs in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np
from mlir.dialects import linalg, quant

from qtranspose._mlir import extension, ir
from qtranspose.elements import Array, Element
from qtranspose.errors import QTransposeError
from qtranspose.functions import Signature, find_function, signature
from qtranspose.reference import numbers as n
from qtranspose.reference.numbers import Number, Values
from qtranspose.reference.scalars import OPERATIONS, UndefinedError, UnsupportedError, assume, from_bits, to_bits

__all__ = ["ProgramAssertsError", "SizesError", "UndefinedError", "UnsupportedError", "evaluate"]

# Their stubs in 22.1.8 do not know all that the extensions define.
_LINALG: Any = linalg
_QUANT: Any = quant
_MAX_ITERATIONS = 1 << 20
# Of one sum, which is run through in Python.
_MAX_TERMS = 1 << 17
_MAX_ELEMENTS = 1 << 28
_DYNAMIC = ir.ShapedType.get_dynamic_size()


class ProgramAssertsError(QTransposeError):
    """A `cf.assert` of the program fails on these inputs."""


class SizesError(QTransposeError):
    """A size is not what it must be.

    Attributes:
        size: of some dim.
        wanted: what it must be equal to; or, if `multiple`, a multiple of.
    """

    def __init__(self, what: str, size: int, wanted: int, multiple: bool = False) -> None:
        super().__init__(f"{what}: {size}, not {'a multiple of ' if multiple else ''}{wanted}")
        self.size, self.wanted, self.multiple = size, wanted, multiple


def evaluate(module: ir.Module, inputs: Sequence[Array], function: str | None = None) -> list[Number]:
    """Evaluate a function of `module` on `inputs` (as `Executable` takes them); one number per result.

    Sizes of the arrays must be those that the program needs: a mismatch is an error here or in NumPy.

    Raises:
        UnsupportedError: if the program has something that the reference does not know.
        ProgramAssertsError: if an assertion of the program fails.
        SizesError: if sizes do not fit, and it is known which.
        UndefinedError: if the program divides by zero, or reads what is not there.
        QTransposeError: if sizes do not fit.
    """
    op = find_function(module, function)
    types = signature(op)
    with module.context:
        try:
            return _Interpreter(module).call(op, _arguments(types, inputs))
        except (ValueError, IndexError, MemoryError) as error:
            raise QTransposeError(f"@{types.name}: sizes do not fit: {error}") from error


def _arguments(types: Signature, inputs: Sequence[Array]) -> list[Number]:
    numbers = []
    for type, array in zip(types.arguments, inputs, strict=True):
        array = np.asarray(array)
        if type.element.kind == "float":
            numbers.append(Number.exact(type.element, array.astype(np.float64)))
        else:
            numbers.append(Number.exact(type.element, n.wrap(type.element, array.astype(np.int64))))
    return numbers


def _element(type: ir.Type) -> Element:
    """Return the element type of a tensor or scalar; of a `!quant` type, that of its storage."""
    element = ir.ShapedType(type).element_type if isinstance(type, ir.ShapedType) else type
    if str(element).startswith("!quant."):
        element = _QUANT.QuantizedType(element).storage_type
    try:
        return Element.of(element)
    except QTransposeError as error:
        raise UnsupportedError(str(error)) from error


def _concatenate(numbers: Sequence[Number], axis: int) -> Number:
    full = [number.filled() for number in numbers]
    for number in numbers:
        for dim, (size, wanted) in enumerate(zip(number.shape, numbers[0].shape, strict=True)):
            if dim != axis and size != wanted:
                raise SizesError("a dim of concatenated tensors", size, wanted)
    return Number(
        numbers[0].element,
        np.concatenate([number.value for number in full], axis=axis),
        np.concatenate([number.error for number in full], axis=axis),
        np.concatenate([number.size for number in full], axis=axis),
    )


def _assign(into: Number, index: Any, source: Number) -> Number:
    """Return a copy of `into` with the elements at `index` replaced."""
    result = into.filled()
    for name in ("value", "error", "size"):
        getattr(result, name)[index] = getattr(source, name)
    return result


class _Interpreter:
    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self.functions = {
            ir.StringAttr(op.attributes["sym_name"]).value: op
            for op in module.body.operations
            if "sym_name" in op.attributes
        }
        self.env: dict[Any, Number] = {}
        self.depth = 0
        # Where the loops of the innermost structured op are, and their extents.
        self.grid: tuple[list[Any], tuple[int, ...]] = ([], ())

    def call(self, function: Any, arguments: Sequence[Number]) -> list[Number]:
        if not function.regions[0].blocks or len(function.regions[0].blocks) != 1:
            raise UnsupportedError("a function with several blocks or none")
        self.depth += 1
        if self.depth > 64:
            raise UnsupportedError("deep recursion")
        outer, self.env = self.env, {}
        try:
            return self.run(function.regions[0].blocks[0], arguments, last=True)
        finally:
            self.env = outer
            self.depth -= 1

    def run(self, block: ir.Block, arguments: Sequence[Number], last: bool = False) -> list[Number]:
        """Evaluate a block; what its terminator passes on.

        Args:
            block: to evaluate.
            arguments: of the block.
            last: whether nothing of the block is needed any more afterwards: tensors are let go after their last use.
        """
        for argument, number in zip(block.arguments, arguments, strict=True):
            self.env[argument] = number
        del arguments
        operations = [view.operation for view in block.operations]
        dead = _last_uses(operations) if last else {}
        for position, op in enumerate(operations):
            if op.name in ("func.return", "scf.yield", "linalg.yield", "tensor.yield"):
                return [self.env[operand] for operand in op.operands]
            for result, number in zip(op.results, self.evaluate(op), strict=True):
                self.env[result] = number
            for value in dead.get(position, ()):
                self.env.pop(value, None)
        return []

    def evaluate(self, op: ir.Operation) -> list[Number]:
        if op.name in OPERATIONS:
            operands = [self.env[operand] for operand in op.operands]
            return [assume(op, operands, OPERATIONS[op.name](op, _element(op.results[0].type), operands))]
        handler = getattr(self, "op_" + op.name.replace(".", "_"), None)
        if handler is None and op.name.startswith("linalg."):
            return self.structured(op)
        if handler is None:
            raise UnsupportedError(f"the operation '{op.name}'")
        result = handler(op)
        return result if isinstance(result, list) else [result]

    def numbers(self, op: ir.Operation) -> list[Number]:
        return [self.env[operand] for operand in op.operands]

    def integer(self, value: Any) -> int:
        return int(n.integers(self.env[value]))

    def mixed(self, op: ir.Operation, name: str, dynamic: list[int]) -> list[int]:
        """Fill the dynamic ones into static sizes, offsets or strides, in order."""
        static = [int(value) for value in ir.DenseI64ArrayAttr(op.attributes[name])]
        return [dynamic.pop(0) if value == _DYNAMIC else value for value in static]

    def segments(self, op: ir.Operation) -> list[list[Any]]:
        operands = iter(op.operands)
        sizes = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])
        return [list(itertools.islice(operands, int(size))) for size in sizes]

    # Constants and calls

    def op_arith_constant(self, op: ir.Operation) -> Number:
        return self.constant(op.attributes["value"], op.results[0].type)

    def constant(self, value: ir.Attribute, type: ir.Type) -> Number:
        element = _element(type)
        if not isinstance(type, ir.ShapedType):
            if element.kind == "float":
                return Number.exact(element, np.asarray(ir.FloatAttr(value).value))
            number = ir.BoolAttr(value).value if str(type) == "i1" else ir.IntegerAttr(value).value
            return Number.exact(
                element, n.wrap(element, np.asarray(int(number) & (2**64 - 1), np.uint64).view(np.int64))
            )
        bits = extension.constant_bits(value)
        if bits is None:
            raise UnsupportedError("a constant without data, or of a kind without elements")
        shape = [ir.ShapedType(type).get_dim_size(dim) for dim in range(ir.ShapedType(type).rank)]
        return from_bits(element, np.frombuffer(bits, np.uint64).reshape(shape))

    def op_func_call(self, op: ir.Operation) -> list[Number]:
        name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        return self.call(self.functions[name], self.numbers(op))

    def op_ml_program_global_load(self, op: ir.Operation) -> Number:
        name = str(op.attributes["global"]).removeprefix("@")
        definition = self.functions.get(name)
        if definition is None or "is_mutable" in definition.attributes or "value" not in definition.attributes:
            raise UnsupportedError("a global that may change")
        return self.constant(definition.attributes["value"], op.results[0].type)

    op_ml_program_global_load_const = op_ml_program_global_load

    def op_cf_assert(self, op: ir.Operation) -> list[Number]:
        condition = self.env[op.operands[0]]
        if not np.all(condition.value):
            compared = op.operands[0].owner
            if isinstance(compared, ir.OpView) and compared.operation.name == "arith.cmpi":
                size, wanted = (self.env[operand] for operand in compared.operands)
                equal = ir.IntegerAttr(compared.attributes["predicate"]).value == 0
                if equal and size.shape == () and size.element.name == "index":
                    raise SizesError(ir.StringAttr(op.attributes["msg"]).value, int(size.value), int(wanted.value))
            raise ProgramAssertsError(f"assertion failed: {ir.StringAttr(op.attributes['msg']).value}")
        return []

    def op_affine_apply(self, op: ir.Operation) -> Number:
        map = ir.AffineMapAttr(op.attributes["map"]).value
        value = _affine(map.results[0], [n.integers(number) for number in self.numbers(op)], map.n_dims)
        return Number.exact(_element(op.results[0].type), np.asarray(value, np.int64))

    # Control flow

    def op_scf_if(self, op: ir.Operation) -> list[Number]:
        condition = self.env[op.operands[0]]
        if np.any(condition.error != 0):
            raise UnsupportedError("a branch on a number that rounding may change")
        region = op.regions[0 if condition.value else 1]
        return self.run(region.blocks[0], []) if len(region.blocks) else []

    def op_scf_for(self, op: ir.Operation) -> list[Number]:
        low, high, step = (self.integer(value) for value in list(op.operands)[:3])
        carried = [self.env[value] for value in list(op.operands)[3:]]
        element = _element(op.operands[0].type)
        if step <= 0 or (high - low) // step > _MAX_ITERATIONS:
            raise UnsupportedError("a loop of very many iterations")
        for index in range(low, high, step):
            carried = self.run(op.regions[0].blocks[0], [Number.exact(element, np.asarray(index)), *carried])
        return carried

    # Tensors

    def op_tensor_empty(self, op: ir.Operation) -> Number:
        sizes = iter(self.integer(value) for value in op.operands)
        type = ir.ShapedType(op.results[0].type)
        shape = [next(sizes) if type.is_dynamic_dim(d) else type.get_dim_size(d) for d in range(type.rank)]
        _check_size(shape)
        # What nobody wrote is anything: a result that depends on it has no bound.
        element = _element(op.results[0].type)
        zero = Number.exact(element, n.wrap(element, np.zeros(shape)) if element.kind == "int" else np.zeros(shape))
        return replace(zero, error=np.asarray(np.inf))

    def op_tensor_dim(self, op: ir.Operation) -> Number:
        tensor, dim = self.env[op.operands[0]], self.integer(op.operands[1])
        return Number.exact(_element(op.results[0].type), np.asarray(tensor.shape[dim]))

    def op_tensor_cast(self, op: ir.Operation) -> Number:
        number, type = self.env[op.operands[0]], ir.ShapedType(op.results[0].type)
        for dim, size in enumerate(number.shape):
            if not type.is_dynamic_dim(dim) and type.get_dim_size(dim) != size:
                raise SizesError("a dim of a cast", size, type.get_dim_size(dim))
        return number

    def op_tensor_collapse_shape(self, op: ir.Operation) -> Number:
        number = self.env[op.operands[0]]
        groups = [list(ir.ArrayAttr(group)) for group in ir.ArrayAttr(op.attributes["reassociation"])]
        shape = [prod(number.shape[ir.IntegerAttr(dim).value] for dim in group) for group in groups]
        return number.map(lambda array: array.reshape(shape))

    def op_tensor_expand_shape(self, op: ir.Operation) -> Number:
        static = [int(size) for size in ir.DenseI64ArrayAttr(op.attributes["static_output_shape"])]
        shape = self.mixed(op, "static_output_shape", [self.integer(value) for value in list(op.operands)[1:]])
        number = self.env[op.operands[0]]
        for size, group in zip(number.shape, ir.ArrayAttr(op.attributes["reassociation"]), strict=True):
            dims = [ir.IntegerAttr(dim).value for dim in ir.ArrayAttr(group)]
            known = prod(static[dim] for dim in dims if static[dim] != _DYNAMIC)
            if known and size % known:
                raise SizesError("an expanded dim", size, known, multiple=True)
            if prod(shape[dim] for dim in dims) != size:
                raise SizesError("an expanded dim", size, prod(shape[dim] for dim in dims))
        return number.map(lambda array: array.reshape(shape))

    def op_tensor_reshape(self, op: ir.Operation) -> Number:
        shape = [int(size) for size in n.integers(self.env[op.operands[1]])]
        return self.env[op.operands[0]].map(lambda array: array.reshape(shape))

    def op_tensor_bitcast(self, op: ir.Operation) -> Number:
        number = self.env[op.operands[0]]
        if np.any(number.error != 0):
            raise UnsupportedError("a bitcast of numbers that rounding may change")
        return from_bits(_element(op.results[0].type), to_bits(number))

    def slices(self, op: ir.Operation, dynamic: list[list[Any]], shape: Sequence[int]) -> tuple[slice, ...]:
        bounds = [
            self.mixed(op, name, [self.integer(value) for value in values])
            for name, values in zip(("static_offsets", "static_sizes", "static_strides"), dynamic, strict=True)
        ]
        found = []
        for offset, size, stride, extent in zip(*bounds, shape, strict=True):
            if offset < 0 or (size and offset + (size - 1) * stride >= extent):
                raise ValueError(f"a slice from {offset} of {size} by {stride} of {extent}")
            found.append(slice(offset, offset + (size - 1) * stride + 1 if size else offset, stride))
        return tuple(found)

    def op_tensor_extract_slice(self, op: ir.Operation) -> Number:
        (source,), *dynamic = self.segments(op)
        number = self.env[source]
        part = number.map(lambda array: array[self.slices(op, dynamic, number.shape)])
        return part.map(lambda array: array.reshape(self.reduced(part.shape, op.results[0].type)))

    def reduced(self, shape: Sequence[int], type: ir.Type) -> list[int]:
        """Return the sizes of a slice without the unit dims that its type drops."""
        shaped = ir.ShapedType(type)
        want = [None if shaped.is_dynamic_dim(d) else shaped.get_dim_size(d) for d in range(shaped.rank)]
        sizes = list(shape)
        spare = len(sizes) - len(want)
        kept: list[int] = []
        for size in sizes:
            target = want[len(kept)] if len(kept) < len(want) else 0
            if spare and size == 1 and target != 1:
                spare -= 1
                continue
            kept.append(size)
        return kept[: len(want)]

    def op_tensor_insert_slice(self, op: ir.Operation) -> Number:
        (source,), (dest,), *dynamic = self.segments(op)
        number, into = self.env[source], self.env[dest]
        index = self.slices(op, dynamic, into.shape)
        shape = into.value[index].shape
        return _assign(into, index, number.map(lambda array: array.reshape(shape)).filled())

    def op_tensor_concat(self, op: ir.Operation) -> Number:
        return _concatenate(self.numbers(op), ir.IntegerAttr(op.attributes["dim"]).value)

    def op_tensor_pad(self, op: ir.Operation) -> Number:
        (source,), low, high = self.segments(op)
        number = self.env[source]
        before = self.mixed(op, "static_low", [self.integer(value) for value in low])
        after = self.mixed(op, "static_high", [self.integer(value) for value in high])
        if min(*before, *after, 0) < 0:
            raise UnsupportedError("padding by a negative amount")
        shape = [a + size + b for a, size, b in zip(before, number.shape, after, strict=True)]
        index = Element.of(ir.IndexType.get())
        grid = [Number.exact(index, g.astype(np.int64)) for g in np.indices(shape)]
        (value,) = self.run(op.regions[0].blocks[0], grid)
        full = value.map(lambda array: np.broadcast_to(array, shape))
        return _assign(full, tuple(slice(a, a + s) for a, s in zip(before, number.shape, strict=True)), number.filled())

    def op_tensor_splat(self, op: ir.Operation) -> Number:
        sizes = iter(self.integer(value) for value in list(op.operands)[1:])
        type = ir.ShapedType(op.results[0].type)
        shape = [next(sizes) if type.is_dynamic_dim(d) else type.get_dim_size(d) for d in range(type.rank)]
        _check_size(shape)
        number = self.env[op.operands[0]]
        return replace(number, value=np.broadcast_to(number.value, shape))

    def op_tensor_extract(self, op: ir.Operation) -> Number:
        tensor, *indices = self.numbers(op)
        if any(np.any(index.error != 0) for index in indices):
            raise UnsupportedError("an element at an index that rounding may change")
        at = tuple(n.integers(index) for index in indices)
        for position, size in zip(at, tensor.shape, strict=True):
            if np.any((position < 0) | (position >= size)):
                raise UndefinedError(f"an index is outside of a dim of size {size}")
        return tensor.map(lambda array: array[at])

    def op_tensor_from_elements(self, op: ir.Operation) -> Number:
        type = ir.ShapedType(op.results[0].type)
        shape = [type.get_dim_size(dim) for dim in range(type.rank)]
        parts = [number.map(lambda array: array.reshape(1)) for number in self.numbers(op)]
        return _concatenate(parts, 0).map(lambda array: array.reshape(shape))

    # Quantized types

    def op_quant_scast(self, op: ir.Operation) -> Number:
        return replace(self.env[op.operands[0]], element=_element(op.results[0].type))

    def op_quant_dcast(self, op: ir.Operation) -> Number:
        number, element = self.env[op.operands[0]], _element(op.results[0].type)
        scale, zero, signed = self.parameters(op.operands[0].type, number.shape)
        whole = n.integers(number) if signed else n.unsigned(number).astype(np.int64)
        exact = Number.exact(element, (whole - zero).astype(np.float64))
        return n.multiply(exact, self.scales(element, scale))

    def op_quant_qcast(self, op: ir.Operation) -> Number:
        number, element = self.env[op.operands[0]], _element(op.results[0].type)
        type = op.results[0].type
        quantized = _QUANT.QuantizedType(ir.ShapedType(type).element_type if isinstance(type, ir.ShapedType) else type)
        scale, zero, _ = self.parameters(type, number.shape)
        quotient = n.step(n.divide(number, self.scales(number.element, scale)), np.rint)
        value = np.clip(quotient.value + zero, quantized.storage_type_min, quantized.storage_type_max)
        value = np.where(np.isnan(value), quantized.storage_type_min, value)
        return Number(element, n.wrap(element, value.astype(np.int64)), quotient.error, n.EXACT)

    def scales(self, element: Element, scale: Values) -> Number:
        """Scales as the expressed type holds them."""
        with np.errstate(all="ignore"):
            return Number.exact(element, scale.astype(element.dtype).astype(np.float64))

    def parameters(self, type: ir.Type, shape: Sequence[int]) -> tuple[Values, Values, bool]:
        """Scale and zero point of every element of a tensor of a quantized type, and whether it is signed."""
        base = _QUANT.QuantizedType(ir.ShapedType(type).element_type if isinstance(type, ir.ShapedType) else type)
        quantized = base.maybe_downcast()
        if isinstance(quantized, _QUANT.UniformQuantizedType):
            return np.asarray(quantized.scale), np.asarray(quantized.zero_point), base.is_signed
        if isinstance(quantized, _QUANT.UniformQuantizedPerAxisType):
            along = [1] * len(shape)
            along[quantized.quantized_dimension] = -1
            scale, zero = (np.array(list(values)) for values in (quantized.scales, quantized.zero_points))
            return scale.reshape(along), zero.reshape(along), base.is_signed
        if isinstance(quantized, _QUANT.UniformQuantizedSubChannelType):
            numbers = [self.constant(values, values.type).value for values in (quantized.scales, quantized.zero_points)]
            sizes = dict(zip(quantized.quantized_dimensions, quantized.block_sizes, strict=True))
            at = np.ix_(*[np.arange(size) // sizes.get(dim, max(size, 1)) for dim, size in enumerate(shape)])
            scale, zero = (array[at] for array in numbers)
            return scale, zero.astype(np.int64), base.is_signed
        raise UnsupportedError(f"the type '{base}'")

    # Structured operations

    def structured(self, op: ir.Operation) -> list[Number]:
        maps = _LINALG.get_indexing_maps(op) if op.regions else None
        if maps is None or not len(op.regions[0].blocks):
            raise UnsupportedError(f"the operation '{op.name}'")
        maps = [ir.AffineMapAttr(map).value for map in maps]
        operands = self.numbers(op)
        inits = operands[len(operands) - len(op.results) :]
        if not op.results:
            raise UnsupportedError(f"'{op.name}' on memrefs")
        outputs = maps[len(maps) - len(inits) :]
        extents = _extents(maps, operands)
        written = {position for map in outputs for result in map.results for position in _dims(result)}
        parallel = sorted(written)
        reduction = [dim for dim in range(maps[0].n_dims) if dim not in written]
        if any(not _is_written_once(map) for map in outputs):
            raise UnsupportedError("an element that is written several times")
        if prod(extents[dim] for dim in reduction) > _MAX_TERMS:
            raise UnsupportedError("a sum of very many terms")
        # One array axis per parallel loop; reductions are run through in order.
        grid: list[Any] = [0] * maps[0].n_dims
        for axis, dim in enumerate(parallel):
            shape = [1] * len(parallel)
            shape[axis] = extents[dim]
            grid[dim] = np.arange(extents[dim]).reshape(shape)
        domain = tuple(extents[dim] for dim in parallel)

        def at(map: ir.AffineMap, number: Number) -> Number:
            if not number.shape:
                return number
            view = _projection(map, parallel, grid)
            if view is not None:
                return number.map(view)
            index = tuple(np.broadcast_to(_affine(result, grid), domain) for result in map.results)
            return number.map(lambda array: array[index])

        inputs = list(zip(maps, operands, strict=False))[: len(operands) - len(inits)]
        depends = [any(dim in reduction for result in map.results for dim in _dims(result)) for map, _ in inputs]
        fixed = [None if varies else at(map, number) for (map, number), varies in zip(inputs, depends, strict=True)]
        accumulators = [at(map, number) for map, number in zip(outputs, inits, strict=True)]
        block = op.regions[0].blocks[0]
        steps = itertools.product(*(range(extents[dim]) for dim in reduction))
        outer = self.grid
        for point in steps:
            for dim, position in zip(reduction, point, strict=True):
                grid[dim] = position
            self.grid = (grid, domain)
            values = [known or at(map, number) for known, (map, number) in zip(fixed, inputs, strict=True)]
            accumulators = self.run(block, [*values, *accumulators])
        self.grid = outer
        results = []
        for map, number, init in zip(outputs, accumulators, inits, strict=True):
            full = replace(number, value=np.broadcast_to(number.value, domain))
            if reduction and full.is_float:
                # A sum is done: what follows sees it as one number, whatever it was added up from.
                full = replace(full, size=np.abs(full.value) + full.error)
            dims = [result.position for result in map.results if isinstance(result, ir.AffineDimExpr)]
            if sorted(dims) == parallel and len(dims) == len(map.results):
                order = [parallel.index(dim) for dim in dims]
                results.append(full.map(partial(_transposed, order=order)))
                continue
            index = tuple(np.broadcast_to(_affine(result, grid), domain) for result in map.results)
            results.append(_assign(init, index, full.filled()))
        return results

    def op_linalg_index(self, op: ir.Operation) -> Number:
        grid, domain = self.grid
        position = np.asarray(grid[ir.IntegerAttr(op.attributes["dim"]).value], np.int64)
        return Number.exact(_element(op.results[0].type), np.broadcast_to(position, domain))


def _check_size(shape: Sequence[int]) -> None:
    if min(shape, default=0) < 0 or prod(shape) > _MAX_ELEMENTS:
        raise UndefinedError(f"a tensor of sizes {list(shape)}")


def _last_uses(operations: Sequence[ir.Operation]) -> dict[int, list[Any]]:
    """Return the values that are used for the last time by each operation of a block, or in it."""
    last: dict[Any, int] = {}

    def use(op: Any) -> ir.WalkResult:
        last.update(dict.fromkeys(op.operation.operands, position))
        return ir.WalkResult.ADVANCE

    for position, op in enumerate(operations):
        last.update(dict.fromkeys(op.results, position))
        op.walk(use, ir.WalkOrder.PRE_ORDER)
    dead: dict[int, list[Any]] = {}
    for value, position in last.items():
        dead.setdefault(position, []).append(value)
    return dead


def _projection(map: ir.AffineMap, parallel: Sequence[int], grid: Sequence[Any]) -> Callable[[Values], Values] | None:
    """Return the view of an operand along the parallel loops, if its map only permutes, drops and fixes dims."""
    index: list[Any] = []
    axes = []
    for result in map.results:
        if isinstance(result, ir.AffineConstantExpr):
            index.append(result.value)
        elif not isinstance(result, ir.AffineDimExpr) or result.position in axes:
            return None
        elif result.position in parallel:
            index.append(slice(None))
            axes.append(result.position)
        else:
            index.append(grid[result.position])
    order = sorted(range(len(axes)), key=axes.__getitem__)
    unit = tuple(slice(None) if dim in axes else None for dim in parallel)
    return lambda array: array[tuple(index)].transpose(order)[unit]


def _transposed(array: Values, order: Sequence[int]) -> Values:
    """Transpose; a copy, since what reads it in a loop over a reduction is then several times faster."""
    return np.array(array.transpose(order), order="C")


def _extents(maps: Sequence[ir.AffineMap], operands: Sequence[Number]) -> list[int]:
    extents: dict[int, int] = {}
    for map, number in zip(maps, operands, strict=False):
        for result, size in zip(map.results, number.shape, strict=True):
            if isinstance(result, ir.AffineDimExpr):
                dim = result.position
                if extents.setdefault(dim, size) != size:
                    raise SizesError("a dim that a loop runs over", size, extents[dim])
    if len(extents) != maps[0].n_dims:
        raise UnsupportedError("a loop whose extent no operand has")
    return [extents[dim] for dim in range(maps[0].n_dims)]


def _dims(expr: Any) -> set[int]:
    if isinstance(expr, ir.AffineDimExpr):
        return {expr.position}
    if isinstance(expr, ir.AffineBinaryExpr):
        return _dims(expr.lhs) | _dims(expr.rhs)
    return set()


def _is_written_once(map: ir.AffineMap) -> bool:
    """Whether no two points of the loops that the map depends on write the same element."""
    dims = [result.position for result in map.results if isinstance(result, ir.AffineDimExpr)]
    others = [result for result in map.results if not isinstance(result, ir.AffineDimExpr)]
    return len({*dims}) == len(dims) and all(isinstance(other, ir.AffineConstantExpr) for other in others)


def _affine(expr: Any, dims: Sequence[Any], symbols: int = 0) -> Any:
    """Evaluate an affine expression for arrays of dims; symbol 0 is `dims[symbols]`."""
    if isinstance(expr, ir.AffineDimExpr):
        return dims[expr.position]
    if isinstance(expr, ir.AffineSymbolExpr):
        return dims[symbols + expr.position]
    if isinstance(expr, ir.AffineConstantExpr):
        return expr.value
    lhs, rhs = _affine(expr.lhs, dims, symbols), _affine(expr.rhs, dims, symbols)
    if isinstance(expr, ir.AffineAddExpr):
        return lhs + rhs
    if isinstance(expr, ir.AffineMulExpr):
        return lhs * rhs
    if isinstance(expr, ir.AffineModExpr):
        return lhs % rhs
    if isinstance(expr, ir.AffineFloorDivExpr):
        return lhs // rhs
    return -(-lhs // rhs)
