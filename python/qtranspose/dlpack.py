"""Arrays of other libraries, seen as NumPy arrays without a copy."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from qtranspose.elements import Array
from qtranspose.errors import QTransposeError

_CPU = 1
# Codes of `DLDataTypeCode` for types that NumPy does not know, hence its `from_dlpack` refuses.
_FLOATS: dict[int, Any] = {
    4: ml_dtypes.bfloat16,
    7: ml_dtypes.float8_e3m4,
    8: ml_dtypes.float8_e4m3,
    9: ml_dtypes.float8_e4m3b11fnuz,
    10: ml_dtypes.float8_e4m3fn,
    11: ml_dtypes.float8_e4m3fnuz,
    12: ml_dtypes.float8_e5m2,
    13: ml_dtypes.float8_e5m2fnuz,
    14: ml_dtypes.float8_e8m0fnu,
}


class _Tensor(ctypes.Structure):
    """`DLTensor`; the content of a capsule `dltensor` (`DLManagedTensor`) begins with one."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _VersionedTensor(ctypes.Structure):
    """The beginning of `DLManagedTensorVersioned`, the content of a capsule `dltensor_versioned`."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_READ_ONLY = 1
_VERSION = (1, 0)


class _View:
    """Memory of a DLPack capsule, for NumPy to view; the capsule is released with the last view."""

    def __init__(self, capsule: Any, tensor: _Tensor, read_only: bool) -> None:
        # A capsule that nobody has consumed deletes the tensor when it goes.
        self._capsule = capsule
        width = tensor.bits // 8
        shape = tuple(tensor.shape[: tensor.rank])
        strides = tuple(width * stride for stride in tensor.strides[: tensor.rank]) if tensor.strides else None
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "strides": strides,
            "typestr": f"<u{width}",
            "data": ((tensor.data or 0) + tensor.byte_offset, read_only),
        }


def as_array(value: Any) -> Array:
    """Return `value` as a NumPy array; of an array, and of anything that has `__dlpack__`, it shares the memory.

    Raises:
        QTransposeError: if its memory is not the host's, or its type unknown; the message continues "argument 0 ...".
    """
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack__"):
        return np.asarray(value)
    device = value.__dlpack_device__()
    if device[0] != _CPU:
        raise QTransposeError(f"is in the memory of another device (DLPack device {tuple(map(int, device))})")
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return _from_capsule(value)


def _from_capsule(value: Any) -> Array:
    """Read the element types that NumPy's `from_dlpack` does not."""
    try:
        try:
            capsule = value.__dlpack__(max_version=_VERSION)
        except TypeError:
            capsule = value.__dlpack__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise QTransposeError(f"cannot be read through DLPack: {error}") from error
    address = _content(capsule, b"dltensor_versioned")
    if address:
        versioned = _VersionedTensor.from_address(address)
        if versioned.version[0] != _VERSION[0]:
            raise QTransposeError(f"has the unknown DLPack version {versioned.version[0]}")
        tensor, read_only = versioned.tensor, bool(versioned.flags & _READ_ONLY)
    else:
        # What NumPy makes of those that cannot say: they may be immutable.
        address, read_only = _content(capsule, b"dltensor"), True
        if not address:
            raise QTransposeError("has a DLPack capsule that holds no tensor")
        tensor = _Tensor.from_address(address)
    dtype = np.dtype(_FLOATS[tensor.code]) if tensor.code in _FLOATS else None
    if dtype is None or tensor.bits != 8 * dtype.itemsize or tensor.lanes != 1:
        raise QTransposeError(f"has the unknown DLPack type {tensor.code} of {tensor.bits} bits")
    return np.asarray(_View(capsule, tensor, read_only)).view(dtype)


def _content(capsule: Any, name: bytes) -> int | None:
    """Return the address that a capsule of this name holds."""
    is_valid, pointer = ctypes.pythonapi.PyCapsule_IsValid, ctypes.pythonapi.PyCapsule_GetPointer
    is_valid.restype, is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(capsule, name) if is_valid(capsule, name) else None
