"""qtranspose: MLIR passes for quantized weights and the transposes around them.

Everything works on the objects of the stock `mlir` package (`mlir.ir.Module`, `mlir.ir.Context`, ...). Names are loaded
on first use, so that `import qtranspose` is cheap and does not load MLIR.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qtranspose import patterns as patterns
    from qtranspose.derived import DerivedConstant as DerivedConstant
    from qtranspose.derived import QuantizationAxes as QuantizationAxes
    from qtranspose.derived import derived_constants as derived_constants
    from qtranspose.encodings import attach_encodings as attach_encodings
    from qtranspose.encodings import export_encodings as export_encodings
    from qtranspose.errors import QTransposeError as QTransposeError
    from qtranspose.export import export_object as export_object
    from qtranspose.patterns import apply_patterns as apply_patterns
    from qtranspose.pipelines import optimize as optimize
    from qtranspose.remarks import Remark as Remark
    from qtranspose.remarks import remarks as remarks
    from qtranspose.report import Report as Report
    from qtranspose.report import report as report
    from qtranspose.trace import DequantDescription as DequantDescription
    from qtranspose.trace import DequantTrace as DequantTrace
    from qtranspose.trace import TraceLeaf as TraceLeaf
    from qtranspose.trace import trace as trace
    from qtranspose.verification import Verification as Verification
    from qtranspose.verification import verify as verify

_LAZY = {
    "DequantDescription": "trace",
    "DequantTrace": "trace",
    "DerivedConstant": "derived",
    "QTransposeError": "errors",
    "QuantizationAxes": "derived",
    "Remark": "remarks",
    "Report": "report",
    "TraceLeaf": "trace",
    "Verification": "verification",
    "apply_patterns": "patterns",
    "attach_encodings": "encodings",
    "compile": "execution",
    "derived_constants": "derived",
    "export_encodings": "encodings",
    "export_object": "export",
    "optimize": "pipelines",
    "remarks": "remarks",
    "report": "report",
    "trace": "trace",
    "verify": "verification",
}
_MODULES = ("patterns",)

__all__ = [*_LAZY, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"qtranspose.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'qtranspose' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"qtranspose.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Keeps `qt.remarks` and `qt.trace` the functions: importing a submodule sets its name in the package."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _LAZY and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
