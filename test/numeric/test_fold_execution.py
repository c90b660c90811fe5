"""Programs compute their references after `qtranspose-fold-transpose-into-dequant`, with each of its options."""

import pytest
import qtranspose as qt  # noqa: F401  (registers the passes)
from forms.catalog import CATALOG, Entry
from forms.isolated import check
from mlir import ir
from mlir.passmanager import PassManager
from qtranspose import execution

FAMILIES = list({entry.family: entry for entry in reversed(CATALOG)}.values())[::-1]
"""The first instance of every family."""

OPTIONS = ["consumer-layout=nk", "multi-use=clone", "multi-use=read", "matvec-only"]
CASES = [(entry, "") for entry in FAMILIES]
CASES += [(entry, options) for i, options in enumerate(OPTIONS) for entry in FAMILIES[i :: len(OPTIONS)]]


def complaint(entry: Entry, options: str) -> str | None:
    """Fold, compile and run; what is wrong with the results, or None."""
    program = entry.build()
    with ir.Context():
        module = ir.Module.parse(program.mlir)
        passes = PassManager.parse(f"builtin.module(qtranspose-fold-transpose-into-dequant{{{options}}})")
        passes.run(module.operation)
        once = str(module)
        passes.run(module.operation)
        if str(module) != once:
            return "the pass changed its own output"
        results = execution.compile(module)(*program.inputs)
    return program.mismatch(results if isinstance(results, tuple) else (results,))


@pytest.mark.parametrize(("entry", "options"), CASES, ids=[f"{e.name}-{o or 'default'}" for e, o in CASES])
def test_folded_program_matches_its_reference(entry: Entry, options: str) -> None:
    check(lambda: complaint(entry, options))
