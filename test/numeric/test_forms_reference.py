"""The generated corpus itself: every program is valid IR and its reference notices wrong results."""

import numpy as np
import pytest
from forms.catalog import CATALOG, DERIVED, Entry
from mlir import ir
from mlir.dialects import func

ALL = CATALOG + DERIVED
NAMES = [entry.name for entry in ALL]


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)


# PITFALL 11
def test_every_form_has_a_square_and_a_non_square_instance() -> None:
    shapes: dict[str, set[bool]] = {}
    for entry in CATALOG:
        if not {"degenerate", "square"} & entry.tags:
            shapes.setdefault(entry.family, set()).add(entry.p.n == entry.p.k)
    assert {family for family, kinds in shapes.items() if len(kinds) != 2} == set()


@pytest.mark.parametrize("entry", ALL, ids=lambda e: e.name)
def test_program_verifies(entry: Entry) -> None:
    program = entry.build()
    with ir.Context() as context:
        context.allow_unregistered_dialects = False
        module = ir.Module.parse(program.mlir)
        assert module.operation.verify()
        functions = [op for op in module.body.operations if isinstance(op, func.FuncOp)]
        assert functions[0].name.value in program.name
        assert len(functions[0].arguments) == len(program.inputs)
    assert program.mismatch(program.outputs) is None


# PITFALL 26
@pytest.mark.parametrize("entry", [e for e in CATALOG if "degenerate" not in e.tags], ids=lambda e: e.name)
def test_reference_notices_a_shifted_result(entry: Entry) -> None:
    program = entry.build()
    """One dim shifted by one: also what a transposed scale or a swapped channel looks like."""
    shifted = [np.roll(out, 1, axis=int(np.argmax(out.shape))) for out in program.outputs]
    assert program.mismatch(shifted) is not None


@pytest.mark.parametrize("seed", range(100))
def test_a_varied_program_verifies(seed: int) -> None:
    rng = np.random.default_rng(seed)
    entry = CATALOG[int(rng.integers(len(CATALOG)))].vary(rng)
    program = entry.build()
    with ir.Context():
        assert ir.Module.parse(program.mlir).operation.verify()
    assert any(in_.size for in_ in program.inputs) or "degenerate" in entry.tags
