"""Calls whose arguments and results are fixed beforehand."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qtranspose.dlpack import as_array
from qtranspose.elements import Array
from qtranspose.errors import QTransposeError
from qtranspose.functions import ValueType

_WORD = 8

_free = ctypes.CDLL(None).free
_free.argtypes = [ctypes.c_void_p]
_free.restype = None


class Binding:
    """A call of a compiled function on arrays that were checked once: `binding()` runs it.

    Each call reads what the bound arguments hold then, and writes the results into the bound arrays. Calls of one
    binding wait for one another; several bindings of one function may run at once.

    Attributes:
        out: the arrays that the results are written to.
    """

    def __init__(
        self,
        entry: Callable[[Any], None],
        words: Sequence[int],
        alive: Sequence[object],
        results: Sequence[tuple[ValueType, int]],
        out: Sequence[Array],
        check: Callable[[], None] | None,
    ) -> None:
        """Prepare the call.

        Args:
            entry: the native function; it takes pointers to its arguments and to its result struct.
            words: one per argument of the native function.
            alive: what must live as long as this object.
            results: the type of each result and the offset in bytes in the result struct.
            out: where each result goes, see `output_array`.
            check: raises what went wrong in a call; None if nothing can.
        """
        self.out = tuple(out)
        self._entry = entry
        self._check = check
        self._lock = threading.Lock()
        size = max((offset + _WORD * (3 + 2 * len(type.shape)) for type, offset in results), default=_WORD)
        self._returned = (ctypes.c_uint64 * -(-size // _WORD))()
        self._words = (ctypes.c_uint64 * max(len(words), 1))(*words)
        base = ctypes.addressof(self._words)
        addresses = [base + _WORD * position for position in range(len(words))]
        addresses.append(ctypes.addressof(self._returned))
        self._pointers = (ctypes.c_uint64 * len(addresses))(*addresses)
        self._alive = (*alive, *out)
        # Scalars lie in the struct itself, tensors where its words say.
        self._scalars: list[tuple[ValueType, Array, Array]] = []
        self._tensors: list[tuple[int, int, int]] = []
        self._dynamic: list[tuple[int, int, tuple[int, ...]]] = []
        struct = np.ctypeslib.as_array(self._returned).view(np.uint8)
        for number, ((type, offset), array) in enumerate(zip(results, out, strict=True)):
            if type.is_scalar:
                part = struct[offset : offset + type.element.dtype.itemsize].view(type.element.dtype).reshape(())
                self._scalars.append((type, part, array))
                continue
            word = offset // _WORD
            self._tensors.append((word, array.ctypes.data, array.nbytes))
            if None in type.shape:
                self._dynamic.append((number, word + 3, array.shape))

    def __call__(self) -> None:
        """Run the function.

        Raises:
            QTransposeError: if an assertion of the program fails, or a result has not the shape of its array; what the
                arrays hold is not changed then.
        """
        with self._lock:
            returned = self._returned
            self._entry(self._pointers)
            try:
                if self._check:
                    self._check()
                for number, word, shape in self._dynamic:
                    got = tuple(returned[word : word + len(shape)])
                    if got != shape:
                        raise QTransposeError(f"result {number} has shape {list(got)}, its array {list(shape)}")
                for word, address, size in self._tensors:
                    ctypes.memmove(address, returned[word + 1], size)
                for type, part, array in self._scalars:
                    array[()] = type.element.normalize(part)
            finally:
                if len(self._tensors) == 1:
                    _free(returned[self._tensors[0][0]])
                else:
                    # A program may return one buffer twice.
                    for allocated in {returned[word] for word, _, _ in self._tensors}:
                        _free(allocated)


def output_arrays(types: Sequence[ValueType], out: Any) -> list[Array]:
    """Return the memory that results are to be written to.

    Args:
        types: of the results.
        out: one array if there is one result, else a sequence of them; anything that shares its memory with NumPy.

    Raises:
        QTransposeError: if they are not arrays of these types that can be written to; the message is about "out".
    """
    given = [out] if len(types) == 1 and not isinstance(out, (list, tuple)) else list(out)
    if len(given) != len(types):
        raise QTransposeError(f"out has {len(given)} arrays for {len(types)} results")
    arrays: list[Array] = []
    for number, (type, value) in enumerate(zip(types, given, strict=True)):
        what = f"array {number} of out"
        try:
            array = as_array(value)
        except QTransposeError as error:
            raise QTransposeError(f"{what} {error}") from error
        if not isinstance(value, np.ndarray) and not hasattr(value, "__dlpack__"):
            raise QTransposeError(f"{what} is no array")
        if array.dtype != type.element.dtype:
            raise QTransposeError(f"{what} has dtype {array.dtype}, expected {type.element.dtype} for {type.name}")
        if not type.accepts(array.shape):
            raise QTransposeError(f"{what} has shape {list(array.shape)}, expected {type.name}")
        if not (array.flags.writeable and array.flags.c_contiguous and array.flags.aligned):
            raise QTransposeError(f"{what} is not a writable, aligned, C-contiguous array")
        if any(np.may_share_memory(array, other) for other in arrays):
            raise QTransposeError(f"{what} shares memory with an earlier one")
        arrays.append(array)
    return arrays
