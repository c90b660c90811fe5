"""A pass that rewrites nothing leaves the module as it is, to the byte, dead operations and duplicates included."""

from __future__ import annotations

import re

import pytest
import qtranspose as qt
from forms.catalog import CATALOG, Entry
from forms.isolated import check
from mlir import ir

PASSES = [
    "qtranspose-fold-transpose-into-dequant",
    "qtranspose-fold-transpose-into-dequant{matvec-only}",
    "qtranspose-fuse-dequant-into-matmul",
    "qtranspose-absorb-transposes",
    "qtranspose-static-lhs-to-rhs",
    "qtranspose-lower-quantized-matmul",
    "qtranspose-lower-quantized-matmul{allow-reassociation}",
]
FAMILIES = list({entry.family: entry for entry in reversed(CATALOG)}.values())[::-1]
UNUSED = "  %dead = arith.constant 7 : i32\n  %again = arith.constant 7 : i32\n"


def text_of(entry: Entry) -> str:
    return re.sub(r"^ *func\.func .*\{\n", lambda head: head[0] + UNUSED, entry.build().mlir, flags=re.M)


def run(text: str, pipeline: str) -> tuple[bool, bool]:
    """Whether a rewrite was reported, and whether anything changed; locations count."""
    with ir.Context() as context:
        module = ir.Module.parse(text)
        before = module.operation.get_asm(enable_debug_info=True)
        with qt.remarks(context) as remarks:
            qt.optimize(module, pipeline)
        reported = any(remark.kind == "passed" for remark in remarks)
        return reported, module.operation.get_asm(enable_debug_info=True) != before


# PITFALL 31
@pytest.mark.parametrize("entry", FAMILIES, ids=lambda entry: entry.family)
def test_nothing_changes_without_a_rewrite(entry: Entry) -> None:
    def compare() -> str | None:
        text = text_of(entry)
        assert UNUSED in text
        for pipeline in PASSES:
            reported, changed = run(text, pipeline)
            if reported != changed:
                return f"{pipeline}: {'reported but not changed' if reported else 'changed without a remark'}"
        return None

    check(compare)


def test_the_corpus_has_both() -> None:
    """Every pass rewrites some of these programs and refuses others."""
    for pipeline in PASSES:
        outcomes = {run(text_of(entry), pipeline)[0] for entry in FAMILIES[::5]}
        assert outcomes == {True, False}
