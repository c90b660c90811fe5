"""The stock `mlir` package with the passes of this project registered."""

from __future__ import annotations

from mlir import ir

# Loading the extension registers the passes and pipelines.
from qtranspose._mlir_libs import _qtranspose as extension

# The package defines it at import time, out of sight of its type stubs.
MLIRError: type[Exception] = ir.MLIRError  # type: ignore[attr-defined]

# Diagnostics that are not UTF-8 (a name in damaged bytecode) cannot become an `MLIRError`.
MLIR_ERRORS: tuple[type[Exception], ...] = (MLIRError, RuntimeError)

__all__ = ["MLIR_ERRORS", "MLIRError", "extension", "ir"]
