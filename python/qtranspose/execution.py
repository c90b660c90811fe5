"""Compiling a function for the host CPU and calling it on NumPy arrays."""

from __future__ import annotations

import ctypes
import operator
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, SupportsIndex

import numpy as np
from mlir.passmanager import PassManager

from qtranspose._mlir import MLIR_ERRORS, ir
from qtranspose.binding import Binding, output_arrays
from qtranspose.cache import CacheEntry, CompileCache
from qtranspose.constants import Constants
from qtranspose.dlpack import as_array
from qtranspose.elements import Array, Element
from qtranspose.errors import QTransposeError
from qtranspose.functions import Signature, ValueType, find_function, signature
from qtranspose.modules import copy_module
from qtranspose.objects import Code, GeneratedCode, LoadedCode, can_load

ASSERT_HANDLER = "qtranspose_assert_failed"
_ASSERT_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64)
_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_WORD = 8
_NARROW_INTEGERS = ("int1", "uint1", "int2", "uint2", "int4", "uint4")

_free = ctypes.CDLL(None).free
_free.argtypes = [ctypes.c_void_p]
_free.restype = None


class Executable:
    """A compiled function: call it with NumPy arrays, or arrays of others that have `__dlpack__`, like PyTorch's.

    Arguments are positional, in the order of the function's arguments: one array per tensor, and a number or 0-d array
    per scalar. Element types are those of `qtranspose.elements`; a signless integer also takes the unsigned array type
    of its width, `i1` also takes integers 0 and 1, and integers below 8 bits also take the `ml_dtypes` type. Arrays
    need not be contiguous, and are never written to; those that are contiguous and aligned are not copied.

    The result is one NumPy array if the function has one result, else a tuple of them. Results own their memory.
    `out=` writes them to given arrays instead, and `bind` prepares a call that is made often.

    Calls may run in several threads at once; the interpreter lock is released while the function runs. State that the
    function keeps (`ml_program.global`) belongs to this object, and calls that change it must not overlap.

    Attributes:
        name: of the function.
        input_types: the `mlir.ir.Type` of each argument.
        output_types: the `mlir.ir.Type` of each result.
    """

    def __init__(
        self,
        make_code: Callable[[Mapping[str, int]], Code],
        messages: Sequence[str],
        types: Signature,
        function_type: ir.FunctionType,
        constants: Constants | None = None,
    ) -> None:
        """Take the code of a function.

        Args:
            make_code: makes it, given the addresses of the functions that it calls.
            messages: of the assertions of the program, by number.
            types: of the function.
            function_type: the same as MLIR has it.
            constants: that the code reads from memory outside of it.
        """
        self.name = types.name
        self.input_types: tuple[ir.Type, ...] = tuple(function_type.inputs)
        self.output_types: tuple[ir.Type, ...] = tuple(function_type.results)
        self._types = types
        self._results = _ResultLayout(types.results)
        self._messages = tuple(messages)

        # A failed assertion is noted by the thread that ran into it.
        self._failed = failed = threading.local()

        def note_failure(number: int) -> None:
            failed.number = number

        # Code refers to all of these: they live as long as this object.
        self._constants = constants
        self._callback = _ASSERT_CALLBACK(note_failure)
        callback = ctypes.cast(self._callback, ctypes.c_void_p).value or 0
        with _diagnostics(function_type.context, f"cannot generate code for @{self.name}"):
            symbols = {f"_mlir_ciface_{ASSERT_HANDLER}": callback, **(constants.addresses if constants else {})}
            self._code = make_code(symbols)
            address = self._code.address(symbol(self.name))
        if not address:
            raise QTransposeError(f"cannot generate code for @{self.name}")
        self._entry = _ENTRY(address)

    @property
    def constants(self) -> dict[str, int]:
        """The large constants that lie outside of the code, and the bytes of each; none of code from a cache."""
        return dict(self._constants.sizes) if self._constants else {}

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.input_types))
        outputs = ", ".join(map(str, self.output_types))
        return f"<qtranspose.Executable @{self.name}({inputs}) -> ({outputs})>"

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        """Run the function.

        Args:
            *arrays: one per argument, see the class.
            out: the array to write the result to, or one per result; None returns new arrays.

        Raises:
            QTransposeError: if their number, element types or shapes are not those of the function, or an assertion
                (`cf.assert`) of the program fails.
        """
        values = self._values(arrays)
        if out is not None:
            self._bind(values, out)()
            return out
        words = self._argument_words(values)
        returned = np.zeros(max(self._results.size, 1), np.uint8)
        buffer = (ctypes.c_uint64 * max(len(words), 1))(*words)
        base = ctypes.addressof(buffer)
        pointers = [base + _WORD * position for position in range(len(words))]
        pointers.append(returned.ctypes.data)
        self._failed.number = None
        self._entry((ctypes.c_uint64 * len(pointers))(*pointers))
        results = self._results.take(returned)
        self._check()
        return results[0] if len(results) == 1 else results

    def bind(self, *arrays: Any, out: Any) -> Binding:
        """Check arguments and results once, for calls that cost little more than the function itself.

        Args:
            *arrays: one per argument, see the class. Tensors are read in place in every call, so that they must be
                arrays that the function can read as they are. Values put into them later are not checked: those of
                integers whose bytes have bits to spare (`i4` in `int8`) must stay in range. Scalars keep their value.
            out: the array to write the result to, or one per result.

        Raises:
            QTransposeError: as for a call, or if an array would have to be copied.
        """
        values = self._values(arrays)
        for number, (type, given, value) in enumerate(zip(self._types.arguments, arrays, values, strict=True)):
            if not type.is_scalar and value.size and value.ctypes.data != as_array(given).ctypes.data:
                raise QTransposeError(f"argument {number} of @{self.name} cannot be bound: it has to be copied")
        return self._bind(values, out)

    def _bind(self, values: Sequence[Array], out: Any) -> Binding:
        try:
            outputs = output_arrays(self._types.results, out)
        except QTransposeError as error:
            raise QTransposeError(f"@{self.name}: {error}") from error
        check = self._check if self._messages else None
        words = self._argument_words(values)
        return Binding(self._entry, words, (self, *values), self._results.fields, outputs, check)

    def _values(self, arrays: Sequence[Any]) -> list[Array]:
        """Return arrays that the function can read."""
        types = self._types.arguments
        if len(arrays) != len(types):
            raise QTransposeError(f"@{self.name} takes {len(types)} arguments, got {len(arrays)}")
        values = []
        for number, (type, value) in enumerate(zip(types, arrays, strict=True)):
            try:
                values.append(_argument(type, value))
            except QTransposeError as error:
                raise QTransposeError(f"argument {number} of @{self.name} {error}") from error
        return values

    def _argument_words(self, values: Sequence[Array]) -> list[int]:
        """Return the arguments of the native function, one machine word each: parts of descriptors, and scalars."""
        words: list[int] = []
        for type, array in zip(self._types.arguments, values, strict=True):
            if type.is_scalar:
                words.append(int.from_bytes(array.tobytes(), "little") & ((1 << type.element.bits) - 1))
            else:
                words += _descriptor(array)
        return words

    def _check(self) -> None:
        """Raise the failure of the call that this thread has made, and forget it."""
        number = getattr(self._failed, "number", None)
        self._failed.number = None
        if number is not None:
            raise QTransposeError(f"@{self.name}: assertion failed: {self._messages[number]}")


def compile(
    module: ir.Module,
    target: str = "cpu",
    threads: int | None = None,
    function: str | None = None,
    *,
    reassociate: bool = True,
    cache: str | os.PathLike[str] | None = None,
) -> Executable:
    """Compile one function of `module`, and what it calls, for the host.

    The module is not changed. No fusion or folding is done here: see `qtranspose.optimize`. Integer results are exact.
    Floating-point operations are executed as written, in their order, unless `reassociate` allows more.

    Args:
        module: linalg on tensors, or anything else that `qtranspose-to-cpu` lowers.
        target: `cpu`.
        threads: how many threads a call may use; None leaves it to the target. Calls use one thread at present.
        function: name of the function; None means the first public one with a body.
        reassociate: let contractions add in another order, apply scales once per group instead of once per weight, and
            round a product and a sum once, together. Sums are kept in the type of the result (f32 at least); what the
            program rounds to a narrower type stays rounded.
        cache: a directory to keep code in, and to take it from when the same is compiled again on such a host; None
            means the one that the environment variable QTRANSPOSE_CACHE names, if it is set. See `qtranspose.cache`.

    Raises:
        QTransposeError: if the target is unknown, there is no such function, the program cannot be lowered, or the
            directory cannot be used.
    """
    if target != "cpu":
        raise QTransposeError(f"unknown target '{target}' (known: cpu)")
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise QTransposeError(f"threads must be a positive integer, got {threads!r}")
    types, function_type = callable_function(module, function)
    pipeline = cpu_pipeline(reassociate)
    store = CompileCache(cache) if cache is not None else CompileCache.from_environment()
    key = ""
    if store and can_load():
        key = store.key(module, (types.name, pipeline))
        found = store.load(key)
        if found:
            # Code that cannot be loaded any more (a library that is gone) is made anew.
            with suppress(QTransposeError):
                return Executable(partial(LoadedCode, found.object_file), found.messages, types, function_type)
    with module.context, ir.Location.unknown():
        # An object file that is kept has its constants with it.
        lowered = lower(module, types.name, pipeline if key else cpu_pipeline(reassociate, external=True))
        constants = Constants(lowered)
        messages = assert_messages(lowered)
        made: list[GeneratedCode] = []

        def generate(symbols: Mapping[str, int]) -> Code:
            made.append(GeneratedCode(lowered, symbols, keep_object=bool(key)))
            return made[0]

        executable = Executable(generate, messages, types, function_type, constants)
    if store and key:
        store.store(key, CacheEntry(made[0].object_file(), messages))
    return executable


def callable_function(module: ir.Module, name: str | None) -> tuple[Signature, ir.FunctionType]:
    """Return the types of a function (see `find_function`) that can be called with arrays.

    Raises:
        QTransposeError: if there is no such function.
    """
    op = find_function(module, name)
    types = signature(op)
    function_type = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
    for type in (*function_type.inputs, *function_type.results):
        if isinstance(type, ir.MemRefType):
            raise QTransposeError(f"@{types.name} takes or returns '{type}'; only tensors and scalars can be passed")
    return types, function_type


def cpu_pipeline(reassociate: bool, *, external: bool = False) -> str:
    """Return the passes that lower to the CPU, with large constants in the code or `external` (see `Constants`)."""
    options = [f"assert-handler={ASSERT_HANDLER}"]
    options += ["allow-reassociation", "contract"] * reassociate + ["externalize-constants"] * external
    return f"qtranspose-to-cpu{{{' '.join(options)}}}"


def lower(module: ir.Module, entry: str, pipeline: str, *, c_interface: bool = False) -> ir.Module:
    """Return a copy of `module` in the LLVM dialect.

    Args:
        module: as `compile` takes it.
        entry: the function that is to be called; its name is `symbol(entry)` then.
        pipeline: from `cpu_pipeline`.
        c_interface: whether to add a function with MLIR's C interface to it.

    Raises:
        QTransposeError: if the program cannot be lowered.
    """
    lowered = copy_module(module)
    _run_passes(lowered, "qtranspose-check-cpu-input")
    _isolate_symbols(lowered, entry)
    if c_interface:
        find_function(lowered, symbol(entry)).attributes["llvm.emit_c_interface"] = ir.UnitAttr.get()
    _run_passes(lowered, pipeline)
    return lowered


def assert_messages(module: ir.Module) -> list[str]:
    """Return the messages of the assertions of a lowered program, by number."""
    name = "qtranspose.assert_messages"
    if name not in module.operation.attributes:
        return []
    return [ir.StringAttr(message).value for message in ir.ArrayAttr(module.operation.attributes[name])]


def symbol(name: str) -> str:
    """Return the symbol of a function of the program: one that no library has."""
    return f"qtranspose.{name}"


def _run_passes(module: ir.Module, passes: str) -> None:
    try:
        PassManager.parse(f"builtin.module({passes})").run(module.operation)
    except MLIR_ERRORS as error:
        raise QTransposeError.from_mlir(error) from error


def _isolate_symbols(module: ir.Module, entry: str) -> None:
    """Give every symbol a name that no library has, and make all but `entry` private.

    A function of the program that is called `malloc` or `exp` would otherwise take the place of the real one.
    """
    for op in module.body.operations:
        if "sym_name" not in op.attributes:
            continue
        name = ir.StringAttr(op.attributes["sym_name"]).value
        renamed = symbol(name)
        ir.SymbolTable.replace_all_symbol_uses(name, renamed, module.operation)
        ir.SymbolTable.set_symbol_name(op, renamed)
        if op.operation.name == "func.func":
            op.attributes["sym_visibility"] = ir.StringAttr.get("public" if name == entry else "private")


@contextmanager
def _diagnostics(context: ir.Context, what: str) -> Iterator[None]:
    """Turn a failure into an error with MLIR's diagnostic, which would otherwise go to stderr."""
    messages: list[str] = []

    def collect(diagnostic: ir.Diagnostic) -> bool:
        messages.append(diagnostic.message)
        return True

    handler: Any = context.attach_diagnostic_handler(collect)
    try:
        yield
    except RuntimeError as error:
        reason = messages[0] if messages else str(error)
        raise QTransposeError(f"{what}: {reason}") from error
    finally:
        handler.detach()


def _argument(type: ValueType, value: Any) -> Array:
    """Return `value` as an aligned C-contiguous array of the bytes that the function reads.

    Raises:
        QTransposeError: if it has the wrong element type, shape or range; the message continues "argument 0 ...".
    """
    element = type.element
    array = _scalar(element, value) if type.is_scalar and isinstance(value, (bool, int, float)) else as_array(value)
    if not _matches(element, array.dtype):
        raise QTransposeError(f"has dtype {array.dtype}, expected {element.dtype} for {type.name}")
    if not type.accepts(array.shape):
        raise QTransposeError(f"has shape {list(array.shape)}, expected {type.name}")
    # The name of a type takes microseconds to make.
    if array.dtype != element.dtype and (
        array.dtype.itemsize != element.dtype.itemsize or array.dtype.name in _NARROW_INTEGERS
    ):
        array = array.astype(element.dtype)
    # A bool array holds bytes 0 and 1 only. Integers of fewer bits than their bytes could hold anything.
    if element.kind == "int" and element.bits < 8 * array.dtype.itemsize and array.dtype != np.bool_ and array.size:
        low, high = element.range
        least, greatest = int(array.min()), int(array.max())
        if least < low or greatest > high:
            raise QTransposeError(f"has the value {least if least < low else greatest}, out of range for {type.name}")
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.require(array, requirements=("C", "A"))


def _matches(element: Element, dtype: np.dtype[Any]) -> bool:
    """Whether an array of `dtype` can stand for elements of this type."""
    if dtype == element.dtype:
        return True
    if element.kind == "float":
        return False
    signless = element.signedness == "none"
    if dtype.name in _NARROW_INTEGERS:
        unsigned = dtype.name.startswith("u")
        same = dtype.name.lstrip("uint") == str(element.bits)
        return same and (signless or unsigned == (element.signedness == "unsigned"))
    if element.dtype == np.bool_:
        return dtype in (np.int8, np.uint8)
    return signless and dtype == np.dtype(f"uint{8 * element.dtype.itemsize}")


def _scalar(element: Element, value: SupportsIndex | float) -> Array:
    """Return a Python number as a 0-d array of the element type.

    Raises:
        QTransposeError: if it is not of that kind, or out of range.
    """
    if element.kind == "float":
        return np.array(value, dtype=element.dtype)
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise QTransposeError(f"is {value!r}, expected an integer for {element.name}") from error
    low, high = element.range
    if not low <= number <= high:
        raise QTransposeError(f"is {number}, out of range for {element.name}")
    width = 8 * element.dtype.itemsize
    return np.array(number % (1 << width), dtype=f"uint{width}").astype(element.dtype)


def _descriptor(array: Array) -> list[int]:
    """Return the words of the memref descriptor of a C-contiguous array."""
    address = array.__array_interface__["data"][0]
    strides = [1] * array.ndim
    for axis in range(array.ndim - 2, -1, -1):
        strides[axis] = strides[axis + 1] * array.shape[axis + 1]
    return [address, address, 0, *array.shape, *strides]


class _ResultLayout:
    """Where the results of a function lie in the struct that it returns.

    Attributes:
        fields: the type of each result and where it lies, in bytes.
        size: of the struct, in bytes.
    """

    def __init__(self, types: Sequence[ValueType]) -> None:
        self.fields: list[tuple[ValueType, int]] = []
        self.size = 0
        for type in types:
            width = type.element.dtype.itemsize if type.is_scalar else _WORD * (3 + 2 * len(type.shape))
            alignment = min(width, _WORD)
            offset = -(-self.size // alignment) * alignment
            self.fields.append((type, offset))
            self.size = offset + width

    def take(self, struct: Array) -> tuple[Array, ...]:
        """Make arrays of a returned struct; they own its buffers, and no two of them share one."""
        results: list[Array] = []
        owners: dict[int, Array] = {}
        for type, offset in self.fields:
            dtype = type.element.dtype
            if type.is_scalar:
                scalar = struct[offset : offset + dtype.itemsize].view(dtype).reshape(())
                results.append(type.element.normalize(scalar.copy()))
                continue
            rank = len(type.shape)
            words: list[int] = struct[offset : offset + _WORD * (3 + rank)].view(np.uint64).tolist()
            # A program may return one buffer twice, as two results or as two parts of it.
            if words[0] in owners:
                alias = _Buffer(0, words[1], tuple(words[3:]), dtype)
                results.append(np.asarray(alias).view(dtype).copy())
                continue
            owners[words[0]] = np.asarray(_Buffer(words[0], words[1], tuple(words[3:]), dtype)).view(dtype)
            results.append(owners[words[0]])
        return tuple(results)


class _Buffer:
    """Memory that a compiled function has allocated, for NumPy to view; freed with the last view."""

    def __init__(self, allocated: int, aligned: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._allocated = allocated
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            # NumPy's protocol has no name for the types of ml_dtypes: bytes of that width, viewed as them later.
            "typestr": f"<u{dtype.itemsize}",
            "data": (aligned, False),
        }

    def __del__(self, free: Any = _free) -> None:
        free(self._allocated)
