"""How MLIR element types look in NumPy arrays and in `.npz` files.

| MLIR                     | array                   | in `.npz`                       |
|--------------------------|-------------------------|---------------------------------|
| `f16` `f32` `f64`        | the same float          | the same                        |
| `bf16`, 8-bit floats ... | the `ml_dtypes` type    | unsigned integer of that width  |
| `i1`                     | bool                    | bool (uint8 of 0 and 1 is read) |
| `iN`, N in 2..7          | int8, one per element   | int8 (uint8 is read)            |
| `i8` `i16` `i32` `i64`   | int of that width       | the same (uint is read: a signless integer has only bits) |
| `uiN`, `siN`             | uint / int              | the same                        |
| `index`                  | int64                   | int64                           |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import ml_dtypes
import numpy as np

from qtranspose._mlir import ir
from qtranspose.errors import QTransposeError

Array = np.ndarray[Any, np.dtype[Any]]

_FLOATS: dict[str, Any] = {
    "f16": np.float16,
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3": ml_dtypes.float8_e4m3,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
    "f8E3M4": ml_dtypes.float8_e3m4,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
}


@dataclass(frozen=True)
class Element:
    """One MLIR element type.

    Attributes:
        name: as MLIR prints it.
        kind: `float`, `int` (`i1` and `index` included).
        bits: significant bits of one element.
        signedness: of an integer; `none` is MLIR's signless, which stands for either.
        dtype: the NumPy type of arrays that hold it.
    """

    name: str
    kind: Literal["float", "int"]
    bits: int
    signedness: Literal["none", "signed", "unsigned"]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, type: ir.Type) -> Element:
        """Describe an element type.

        Raises:
            QTransposeError: for a type that no array can hold (complex, quantized, opaque, wider than 64 bits, ...).
        """
        name = str(type)
        if name in _FLOATS:
            dtype = np.dtype(_FLOATS[name])
            return cls(name, "float", 8 * dtype.itemsize, "signed", dtype)
        if name == "index":
            return cls(name, "int", 64, "signed", np.dtype(np.int64))
        if isinstance(type, ir.IntegerType) and 1 <= type.width <= 64:
            if type.width == 1 and type.is_signless:
                return cls(name, "int", 1, "none", np.dtype(np.bool_))
            width = max(8, 1 << (type.width - 1).bit_length())
            dtype = np.dtype(f"{'u' if type.is_unsigned else ''}int{width}")
            signedness: Literal["none", "signed", "unsigned"] = "none"
            if not type.is_signless:
                signedness = "unsigned" if type.is_unsigned else "signed"
            return cls(name, "int", type.width, signedness, dtype)
        raise QTransposeError(f"unsupported element type '{name}'")

    @cached_property
    def storage(self) -> np.dtype[Any]:
        """The type of its array in an `.npz`."""
        native = self.kind == "int" or self.name in ("f16", "f32", "f64")
        return self.dtype if native else np.dtype(f"uint{8 * self.dtype.itemsize}")

    @cached_property
    def range(self) -> tuple[int, int]:
        """The smallest and largest value of an integer; of a signless one under either reading."""
        if self.bits == 1 and self.signedness == "none":
            return 0, 1
        low = 0 if self.signedness == "unsigned" else -(1 << (self.bits - 1))
        high = (1 << (self.bits - 1)) - 1 if self.signedness == "signed" else (1 << self.bits) - 1
        return low, high

    def normalize(self, scalar: Array) -> Array:
        """Return a 0-d array of `dtype` whose bits beyond the element's width are an extension of the others."""
        if self.kind == "float" or self.bits == 8 * self.dtype.itemsize:
            return scalar
        bits = int(scalar.view(f"uint{8 * scalar.dtype.itemsize}")) & ((1 << self.bits) - 1)
        negative = self.signedness != "unsigned" and self.bits > 1 and bits >> (self.bits - 1)
        return np.array(bits - (1 << self.bits) if negative else bits, dtype=self.dtype)

    def to_storage(self, array: Array) -> Array:
        """Return `array` as it is written to an `.npz`, bit for bit."""
        return array if array.dtype == self.storage else array.view(self.storage)

    def from_storage(self, array: Array) -> Array:
        """Return an array read from an `.npz` as an array of `dtype`, bit for bit.

        Raises:
            QTransposeError: if its type is not one that stands for this element type, or an integer is out of range.
        """
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        if self.kind == "float":
            # NumPy cannot name the types of ml_dtypes in a file and writes them as untyped bytes.
            raw = self.storage != self.dtype and array.dtype == np.dtype(f"V{self.storage.itemsize}")
            if array.dtype == self.storage or raw:
                return array.view(self.dtype)
            raise QTransposeError(f"has dtype {array.dtype}, expected {self.storage} for {self.name}")
        allowed = {self.dtype}
        if self.dtype == np.bool_:
            allowed |= {np.dtype(np.uint8), np.dtype(np.int8)}
        elif self.signedness == "none":
            allowed.add(np.dtype(f"uint{8 * self.dtype.itemsize}"))
        if array.dtype not in allowed:
            raise QTransposeError(f"has dtype {array.dtype}, expected {self.storage} for {self.name}")
        low, high = self.range
        if array.size and self.bits < 8 * array.dtype.itemsize and (array.min() < low or array.max() > high):
            raise QTransposeError(f"has values outside [{low}, {high}], the range of {self.name}")
        return array.astype(np.bool_) if self.dtype == np.bool_ else array.view(self.dtype)
