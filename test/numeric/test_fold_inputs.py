"""Folding alone removes every transpose next to an int8 dequantization, on real programs."""

from __future__ import annotations

from pathlib import Path

import pytest
import qtranspose as qt
from mlir import ir
from qtranspose.traffic import total, weight_paths

ROOT = Path(__file__).parents[2]
FILES = sorted([*(ROOT / "test" / "Inputs").glob("*.mlir"), *(ROOT.parent / "shared" / "inputs").rglob("*.mlir")])
# A reshape, slice or concatenation stands in between; or nothing is dequantized there.
OTHER_KINDS = {"data-movement-in-between", "not-a-dequantization", "quantized-element-type"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_is_left_is_of_another_kind(path: Path) -> None:
    with ir.Context() as context, qt.remarks(context) as remarks:
        context.allow_unregistered_dialects = True
        module = ir.Module.parseFile(str(path))
        qt.optimize(module, "qtranspose-fold-transpose-into-dequant")
        left = total(weight_paths(module)).transposes
        refused = [remark.name for remark in remarks if remark.kind == "missed"]
    assert left <= len(refused)
    assert set(refused) <= OTHER_KINDS
