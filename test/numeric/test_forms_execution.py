"""Every generated program, compiled without any transformation, computes its reference."""

import pytest
from forms.catalog import CATALOG, Entry
from forms.isolated import check
from mlir import ir

execution = pytest.importorskip("qtranspose.execution")


def complaint(entry: Entry) -> str | None:
    """Compile and run the program; what is wrong with the results, or None."""
    program = entry.build()
    with ir.Context():
        results = execution.compile(ir.Module.parse(program.mlir))(*program.inputs)
    return program.mismatch(results if isinstance(results, tuple) else (results,))


@pytest.mark.parametrize("entry", CATALOG, ids=lambda e: e.name)
def test_untransformed_program_matches_its_reference(entry: Entry) -> None:
    check(lambda: complaint(entry))
