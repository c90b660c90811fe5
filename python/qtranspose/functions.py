"""Finding a function in a module and reading its signature."""

from __future__ import annotations

from dataclasses import dataclass

from qtranspose._mlir import ir
from qtranspose.elements import Element
from qtranspose.errors import QTransposeError, source_position


@dataclass(frozen=True)
class ValueType:
    """An argument or result that an array can hold: a ranked tensor or memref, or (shape `()`) a scalar.

    Attributes:
        shape: sizes; None where dynamic.
        element: the element type.
        name: as MLIR prints it.
        is_scalar: whether it is passed by value; a tensor of rank 0 is not.
    """

    shape: tuple[int | None, ...]
    element: Element
    name: str
    is_scalar: bool = False

    @classmethod
    def of(cls, type: ir.Type) -> ValueType:
        """Describe `type`.

        Raises:
            QTransposeError: if no array can hold it.
        """
        if not isinstance(type, ir.ShapedType):
            return cls((), Element.of(type), str(type), is_scalar=True)
        if not type.has_rank or isinstance(type, ir.VectorType):
            raise QTransposeError(f"unsupported type '{type}'")
        shape = tuple(None if type.is_dynamic_dim(d) else type.get_dim_size(d) for d in range(type.rank))
        return cls(shape, Element.of(type.element_type), str(type))

    def accepts(self, shape: tuple[int, ...]) -> bool:
        """Whether an array of this shape has this type."""
        return len(shape) == len(self.shape) and all(
            want in (None, have) for want, have in zip(self.shape, shape, strict=True)
        )


@dataclass(frozen=True)
class Signature:
    """Name and types of a function that can be called with arrays."""

    name: str
    arguments: tuple[ValueType, ...]
    results: tuple[ValueType, ...]


def find_function(module: ir.Module, name: str | None = None) -> ir.OpView:
    """Return the `func.func` called `name`, or the first public one with a body.

    Raises:
        QTransposeError: if there is no such function, or it has no body.
    """
    functions = [op for op in module.body.operations if op.operation.name == "func.func"]
    names = {ir.StringAttr(op.attributes["sym_name"]).value: op for op in functions}
    if name is None:
        for op in public_functions(module):
            return op
        raise QTransposeError("the module has no public function with a body")
    if name not in names:
        known = ", ".join(f"@{known}" for known in names) or "none"
        raise QTransposeError(f"no function @{name} in the module (functions: {known})")
    if not names[name].regions[0].blocks:
        raise QTransposeError(f"function @{name} is only declared: it has no body to run")
    return names[name]


def public_functions(module: ir.Module) -> list[ir.OpView]:
    """Return every public `func.func` with a body, in program order."""
    found = []
    for op in module.body.operations:
        private = "sym_visibility" in op.attributes and str(op.attributes["sym_visibility"]) != '"public"'
        if op.operation.name == "func.func" and op.regions[0].blocks and not private:
            found.append(op)
    return found


def signature(function: ir.OpView) -> Signature:
    """Read the signature of a `func.func`.

    Raises:
        QTransposeError: if an argument or result cannot be held by an array; the message has the position.
    """
    name = ir.StringAttr(function.attributes["sym_name"]).value
    type = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)

    def describe(what: str, types: list[ir.Type]) -> tuple[ValueType, ...]:
        described = []
        for number, one in enumerate(types):
            try:
                described.append(ValueType.of(one))
            except QTransposeError as error:
                place = source_position(function.operation.location)
                prefix = f"{place}: " if place else ""
                raise QTransposeError(f"{prefix}{what} {number} of @{name}: {error}") from error
        return tuple(described)

    return Signature(name, describe("argument", type.inputs), describe("result", type.results))
