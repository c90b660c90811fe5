"""`qtranspose-fuse-dequant-into-matmul` keeps results: the generated corpus, and the modules of its lit tests.

Every program is transformed with the weights dequantized per element, per tile, and as the cost model says. The corpus
is compared with its NumPy reference, other modules with their own untransformed results. A sample runs by
default;
`QTRANSPOSE_FULL=1` runs everything.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import qtranspose as qt
from forms.catalog import CATALOG, DERIVED, Entry
from forms.isolated import check
from mlir import ir
from qtranspose import elements, functions, sampling

execution = pytest.importorskip("qtranspose.execution")

DECISIONS = ("auto", "element", "tile", "materialize")
FULL = os.environ.get("QTRANSPOSE_FULL") == "1"
LIT_TESTS = Path(__file__).parent.parent / "Transforms"


def corpus() -> Iterator[tuple[Entry, str]]:
    """One instance per family and a part of the derived programs, each with one decision; or all with all."""
    if FULL:
        yield from ((entry, decision) for entry in CATALOG + DERIVED for decision in DECISIONS)
        return
    rng = np.random.default_rng(3)
    families: dict[str, list[Entry]] = {}
    for entry in CATALOG:
        families.setdefault(entry.family, []).append(entry)
    sample = [entries[rng.integers(len(entries))] for entries in families.values()]
    sample += [DERIVED[i] for i in rng.choice(len(DERIVED), 50, replace=False)]
    for entry in sample:
        yield entry, DECISIONS[rng.integers(len(DECISIONS))]


def modules() -> Iterator[tuple[str, str]]:
    """The modules of this pass's lit tests."""
    for file in sorted(LIT_TESTS.glob("fuse-dequant-into-matmul*.mlir")):
        for text in file.read_text().split("// -----\n"):
            if function := re.search(r"^ *func.func (private )?@(\w+)", text, flags=re.M):
                yield f"{file.stem.removeprefix('fuse-dequant-into-matmul')}{function[2]}", text


MODULES = dict(modules())


def fused(text: str, decision: str) -> str:
    """Return the transformed module; running the pass again must not change it."""
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
        pipeline = f"qtranspose-fuse-dequant-into-matmul{{decision={decision}}}"
        qt.optimize(module, pipeline)
        assert module.operation.verify()
        once = str(module)
        assert str(qt.optimize(module, pipeline)) == once, "running the pass again changes its result"
        return once


def run(text: str, inputs: list[elements.Array] | tuple[elements.Array, ...]) -> tuple[elements.Array, ...]:
    with ir.Context():
        results = execution.compile(ir.Module.parse(text))(*inputs)
    return results if isinstance(results, tuple) else (results,)


def why_not_executable(text: str) -> str | None:
    """Why the CPU target does not take the untransformed program; None if it does."""
    with ir.Context():
        try:
            execution.compile(ir.Module.parse(text))
        except (qt.QTransposeError, ir.MLIRError) as error:
            return str(error).splitlines()[-1]
    return None


# PITFALL 7
@pytest.mark.parametrize(("entry", "decision"), list(corpus()), ids=lambda v: v.name if isinstance(v, Entry) else v)
def test_fused_program_matches_its_reference(entry: Entry, decision: str) -> None:
    def compare() -> str | None:
        program = entry.build()
        text = fused(program.mlir, decision)
        return program.mismatch(run(text, program.inputs))

    check(compare)


def difference(before: elements.Array, after: elements.Array) -> str | None:
    """Integers must be equal; no float sum is reordered, so floats may only differ by how products are contracted."""
    if before.shape != after.shape or before.dtype != after.dtype:
        return f"{before.shape} {before.dtype} became {after.shape} {after.dtype}"
    if before.dtype.kind in "iub" or "int" in before.dtype.name:
        return None if np.array_equal(before, after) else "integers differ"
    was, now = before.astype(np.float64), after.astype(np.float64)
    finite = was[np.isfinite(was)]
    tolerance = (1e-5 if before.dtype.itemsize >= 4 else 1e-2) * float(np.abs(finite).max(initial=0.0))
    return None if np.allclose(was, now, rtol=0.0, atol=tolerance, equal_nan=True) else "floats differ"


@pytest.mark.parametrize("name", MODULES)
def test_fused_module_keeps_its_results(name: str) -> None:
    def compare() -> str | None:
        text = MODULES[name]
        fusions = {decision: fused(text, decision) for decision in DECISIONS}
        if reason := why_not_executable(text):
            return f"skip: {reason}"
        with ir.Context():
            signature = functions.signature(functions.find_function(ir.Module.parse(text), None))
        sizes = [argument.shape for argument in signature.arguments]
        if any(np.prod([extent or 1 for extent in shape], dtype=float) > 1e6 for shape in sizes):
            return "skip: its arguments do not fit in memory"
        for size in (5, 1, 0) if any(None in shape for shape in sizes) else (5,):
            inputs = sampling.random_inputs(signature, seed=size, dynamic=(size,))
            before = run(text, inputs)
            for decision in DECISIONS if FULL else ("element", "tile"):
                for number, pair in enumerate(zip(before, run(fusions[decision], inputs), strict=True)):
                    if complaint := difference(*pair):
                        return f"result {number}, {decision}, dynamic sizes of {size}: {complaint}"
        return None

    check(compare)


def chain(length: int, op: str) -> str:
    """A matmul of a weight whose body is a chain of `length` steps."""
    steps = "\n".join(f"%t{i + 1} = {op.replace('X', f'%t{i}')}" for i in range(length))
    return f"""
func.func @chain(%x: tensor<4x6xf32>, %q: tensor<6x5xi8>, %s: tensor<6xf32>, %init: tensor<4x5xf32>)
    -> tensor<4x5xf32> {{
  %e = tensor.empty() : tensor<6x5xf32>
  %w = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
      iterator_types = ["parallel", "parallel"]}} ins(%q : tensor<6x5xi8>) outs(%e : tensor<6x5xf32>) {{
  ^bb0(%in: i8, %out: f32):
    %c = arith.constant 6 : index
    %f = arith.sitofp %in : i8 to f32
    %t0 = {"linalg.index 0 : index" if "index" in op else "arith.sitofp %in : i8 to f32"}
    {steps}
    {f"%r = arith.remui %t{length}, %c : index" if "index" in op else ""}
    {"%v = tensor.extract %s[%r] : tensor<6xf32>" if "index" in op else f"%v = arith.negf %t{length} : f32"}
    %m = arith.mulf %f, %v : f32
    linalg.yield %m : f32
  }} -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}}
"""


@pytest.mark.parametrize("length", [5, 60, 6000])
@pytest.mark.parametrize("op", ["arith.addf X, X : f32", "arith.addi X, X : index"])
def test_long_bodies_take_no_exponential_time_and_no_deep_stack(length: int, op: str) -> None:
    """Each value is used twice: as a tree, the expression would have 2**length nodes."""

    def compare() -> str | None:
        text = chain(length, op)
        if fused(text, "tile") == fused(text, "element") and length < 6000:
            return "not fused"
        if length == 5:
            rng = np.random.default_rng(0)
            inputs = [rng.standard_normal((4, 6)).astype(np.float32), rng.integers(-9, 9, (6, 5)).astype(np.int8)]
            inputs += [rng.standard_normal(6).astype(np.float32), np.zeros((4, 5), np.float32)]
            return difference(run(text, inputs)[0], run(fused(text, "element"), inputs)[0])
        return None

    check(compare)
