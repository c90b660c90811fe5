"""The one exception type that the package raises for a bad request or bad input."""

from __future__ import annotations

from typing import Any


class QTransposeError(Exception):
    """A request that cannot be served; the message is one clear sentence for a user.

    Everything in `qtranspose` that refuses an input (a module, an array, a pipeline, a name) raises this, never a bare
    `ValueError` of some layer below. The command line prints it as one line and exits with status 2.
    """

    @classmethod
    def from_mlir(cls, error: Any, what: str = "") -> QTransposeError:
        """Condense an `mlir.ir.MLIRError` (or any exception) to its first diagnostic, `FILE:LINE:COL: reason`.

        Args:
            error: the exception; its notes and later diagnostics are dropped.
            what: what was being done, put in front of the reason.
        """
        prefix = f"{what}: " if what else ""
        diagnostics = getattr(error, "error_diagnostics", None)
        if isinstance(error, RuntimeError) and "conversion error" in str(error):
            return cls(f"{prefix}not valid, and what MLIR says about it is not UTF-8")
        if not diagnostics:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            return cls(f"{prefix}{lines[0]}")
        first = diagnostics[0]
        lines = first.message.strip().splitlines() or ["failed"]
        place = source_position(first.location)
        return cls(f"{place}: {prefix}{lines[0]}" if place else f"{prefix}{lines[0]}")


def source_position(location: Any) -> str:
    """Return `FILE:LINE:COL` of an `mlir.ir.Location`: the first file position in it; empty when it has none."""
    if location.is_a_file():
        return f"{location.filename}:{location.start_line}:{location.start_col}"
    if location.is_a_name():
        return source_position(location.child_loc)
    if location.is_a_callsite():
        return source_position(location.callee)
    if location.is_a_fused():
        return next(filter(None, map(source_position, location.locations)), "")
    return ""
