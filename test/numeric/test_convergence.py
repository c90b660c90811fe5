"""The default pipeline and upstream's clean-ups reach a fixed point: neither undoes what the other does."""

from __future__ import annotations

import pytest
import qtranspose as qt
from forms.catalog import CATALOG, Entry
from forms.isolated import check
from mlir import ir

FAMILIES = list({entry.family: entry for entry in reversed(CATALOG)}.values())[::-1]
CLEAN_UPS = [
    "canonicalize,cse",
    "func.func(linalg-fuse-elementwise-ops),canonicalize",
    "func.func(linalg-fold-unit-extent-dims),canonicalize",
]


def complaint(entry: Entry, weights: str) -> str | None:
    for clean_up in CLEAN_UPS:
        with ir.Context():
            module = ir.Module.parse(entry.build().mlir)
            states: list[str] = []
            for _ in range(3):
                qt.optimize(module, f"qtranspose-default{{weights={weights}}}")
                states.append(str(module))
                qt.optimize(module, clean_up)
                states.append(str(module))
        if states[2:4] != states[4:6]:
            return f"{clean_up}: the third round changes the module again"
        if states[4].count("linalg.transpose") > states[0].count("linalg.transpose"):
            return f"{clean_up}: transposes come back"
    return None


# PITFALL 30
@pytest.mark.parametrize("weights", ["keep", "right"])
@pytest.mark.parametrize("entry", FAMILIES, ids=lambda entry: entry.family)
def test_pipeline_and_clean_ups_converge(entry: Entry, weights: str) -> None:
    check(lambda: complaint(entry, weights))
