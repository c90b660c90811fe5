from typing import Any, Literal

from mlir import ir, rewrite

def pattern_set_names() -> list[str]: ...
def constant_bits(attribute: ir.Attribute) -> bytes | None: ...
def pattern_set(name: str, context: ir.Context) -> rewrite.FrozenRewritePatternSet: ...

# What trace.py makes dataclasses of: leaves are (source, map, indices, is a parameter, stop reason), descriptions nest.
_Leaf = tuple[ir.Value[Any] | ir.Attribute, ir.AffineMap | None, tuple[str, ...], bool, str | None]

def trace(value: ir.Value[Any]) -> tuple[str, tuple[_Leaf, ...], tuple[Any, ...] | None, str]: ...

class Fingerprint:
    def __init__(self, operation: ir.Operation) -> None: ...
    def __eq__(self, other: object, /) -> bool: ...

class RemarkCollector:
    def __init__(self, context: ir.Context) -> None: ...
    def open(self) -> bool: ...
    def close(self) -> None: ...
    def take(
        self,
    ) -> list[
        tuple[
            Literal["passed", "missed", "failed", "analysis"],
            str,
            str,
            str,
            str,
            ir.Location,
            tuple[tuple[str, str], ...],
        ]
    ]: ...
