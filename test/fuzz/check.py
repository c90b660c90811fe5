"""What must hold for a program and the pipelines that transform it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import qtranspose as qt
from mlir import ir
from qtranspose.functions import find_function, signature
from qtranspose.modules import copy_module
from qtranspose.reference import Number, UnsupportedError, evaluate
from qtranspose.sampling import Kind
from qtranspose.traffic import is_transpose
from qtranspose.verification import distance, find_inputs

PIPELINES = (
    "qtranspose-default",
    "qtranspose-default{weights=right}",
    "qtranspose-fold-transpose-into-dequant{multi-use=clone}",
    "qtranspose-fold-transpose-into-dequant{multi-use=read}",
    "qtranspose-fold-transpose-into-dequant{consumer-layout=nk}",
    "qtranspose-fold-transpose-into-dequant{matvec-only}",
    "qtranspose-fuse-dequant-into-matmul{decision=element}",
    "qtranspose-fuse-dequant-into-matmul{decision=tile}",
    "qtranspose-fuse-dequant-into-matmul{decision=tile},func.func(qtranspose-tile-fused-dequant{tile-elements=8})",
    "qtranspose-fuse-dequant-into-matmul{decision=tile consumer-layout=kn}",
    "qtranspose-fuse-dequant-into-matmul{decision=materialize consumer-layout=nk}",
    "qtranspose-absorb-transposes",
    "qtranspose-absorb-transposes{into-contractions=false}",
    "qtranspose-static-lhs-to-rhs",
    "qtranspose-static-lhs-to-rhs{batch=batched}",
    "qtranspose-lower-quantized-matmul",
    "qtranspose-lower-quantized-matmul{allow-reassociation}",
    "qtranspose-fuse-dequant-into-matmul{decision=element},qtranspose-pull-scales-out-of-reduction{allow-reassociation}",
    "qtranspose-fuse-dequant-into-matmul{decision=element},qtranspose-pull-scales-out-of-reduction{allow-reassociation "
    "excess-precision}",
    "qtranspose-fuse-dequant-into-matmul{decision=element},qtranspose-pack-weights{lanes=4}",
    "qtranspose-fuse-dequant-into-matmul{decision=tile},qtranspose-pack-weights{lanes=2}",
)
# Passes that other people run before ours.
STOCK = (
    "",
    "",
    "canonicalize,cse",
    "func.func(linalg-generalize-named-ops)",
    "func.func(linalg-fuse-elementwise-ops)",
    "func.func(linalg-fold-unit-extent-dims)",
    "func.func(linalg-generalize-named-ops,linalg-fold-unit-extent-dims,linalg-fuse-elementwise-ops),canonicalize,cse",
)
# Weights that move to the other side may leave transposes of what is computed at run time.
ADD_TRANSPOSES = {pipeline for pipeline in PIPELINES if "static-lhs" in pipeline or "right" in pipeline}

# Steps of code generation need not be the same when repeated.
CODE_GENERATION = {pipeline for pipeline in PIPELINES if "pull-scales" in pipeline or "pack-weights" in pipeline}


@dataclass
class Outcome:
    """What was done with one program.

    Attributes:
        cases: transformed programs, each different from the original and from each other, that were executed on the
            inputs that the original was executed on, and compared.
        unchanged: pipelines that left the program as it is, byte for byte.
        compiled: how many of `cases` were compiled and executed, before and after, as well.
        pipeline: which was wrong.
        finding: what is wrong, or empty.
    """

    cases: int = 0
    unchanged: int = 0
    compiled: int = 0
    pipeline: str = ""
    finding: str = ""


def count_transposes(module: ir.Module) -> int:
    count = 0

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal count
        count += is_transpose(op.operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return count


def choose(rng: random.Random, count: int) -> tuple[str, list[str]]:
    """Return passes to run first, and the pipelines to check, the default among them."""
    return rng.choice(STOCK), [PIPELINES[0], *rng.sample(PIPELINES[1:], count - 1)]


def transform(given: ir.Module, text: str, pipeline: str) -> tuple[ir.Module, str, str]:
    """Return the transformed program, its text, and what is wrong with how it was made."""
    context = given.context
    with qt.remarks(context) as remarks:
        after = qt.optimize(copy_module(given), pipeline)
        once = str(after)
        if not after.operation.verify():
            return after, once, "the result is not valid"
        if once == text:
            return after, once, ""
        if not any(remark.kind == "passed" for remark in remarks):
            return after, once, "changed without a remark"
    if pipeline not in ADD_TRANSPOSES and count_transposes(after) > count_transposes(given):
        return after, once, "a transpose at run time was added"
    if pipeline in CODE_GENERATION:
        return after, once, ""
    # Resources of one context share their names.
    with ir.Context() if "dense_resource" in once else context:
        if str(qt.optimize(ir.Module.parse(once), pipeline)) != once:
            return after, once, "a second run changes the result"
    return after, once, ""


def difference(before: Sequence[Number], after: Sequence[Number]) -> str:
    """Compare results of the reference interpreter; what is not the same, or nothing.

    Each lies within its bound of what a correct execution returns, so that the two are no further apart than both
    bounds together. Where the original defines a result, so must the transformed program.
    """
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        if old.shape != new.shape or old.element != new.element:
            return f"result {number} is {new.element.name}{new.shape}, before {old.element.name}{old.shape}"
        bounds = [np.broadcast_to(x.error, old.shape) for x in (old, new)]
        apart = distance(new.value, old.value)
        lost = np.isfinite(bounds[0]) & ~np.isfinite(bounds[1]) & np.isfinite(old.value)
        wrong = ~(apart <= np.where(lost, bounds[0], bounds[0] + bounds[1]))
        if wrong.any():
            at = tuple(int(i) for i in np.argwhere(wrong)[0])
            found = f"result {number}{list(at)} is {new.value[at]}, before {old.value[at]}"
            return f"{found}, within {bounds[0][at]:.3g} + {bounds[1][at]:.3g}"
    return ""


def check(text: str, stock: str, pipelines: Sequence[str], seed: int, compiled: bool) -> Outcome:
    """Transform a program with each pipeline, execute before and after, compare.

    Args:
        text: the program, with one function.
        stock: passes to run before.
        pipelines: each is applied to the program by itself.
        seed: of the inputs.
        compiled: compile and execute the programs as well; otherwise the reference interpreter executes them, unless
            they have something that it does not know.
    """
    outcome = Outcome()
    with ir.Context():
        module = ir.Module.parse(text)
        if stock:
            qt.optimize(module, stock)
        given = str(module)
        # Printed and parsed: as another tool would read it.
        with ir.Context() if "dense_resource" in given else module.context:
            module = ir.Module.parse(given)
        with module.context:
            _check(module, given, pipelines, seed, compiled, outcome)
    return outcome


def _check(
    module: ir.Module, given: str, pipelines: Sequence[str], seed: int, compiled: bool, outcome: Outcome
) -> None:
    name = signature(find_function(module, None)).name
    kind = list(Kind)[(0, 0, 1, 1, 2, 3)[seed % 6]]
    if kind is Kind.SPECIAL and any("reassociation" in pipeline for pipeline in pipelines):
        # An infinite factor of a sum, rather than of its terms, makes other infinities and NaNs.
        kind = Kind.RANDOM
    inputs = before = None
    seen = set()
    for pipeline in pipelines:
        outcome.pipeline = pipeline
        after, once, outcome.finding = transform(module, given, pipeline)
        if outcome.finding:
            return
        if once == given:
            outcome.unchanged += 1
            continue
        if once in seen:
            continue
        seen.add(once)
        execute = compiled
        if inputs is None:
            inputs, _, before = find_inputs(module, name, kind, seed)
        if before is None:
            execute = True
        else:
            try:
                outcome.finding = difference(before, evaluate(after, inputs, name))
            except UnsupportedError:
                execute = True
        if execute and not outcome.finding:
            verified = qt.verify(module, after, trials=1, seed=seed)
            outcome.finding = "" if verified.ok else str(verified)
            outcome.compiled += 1
        outcome.cases += 1
        if outcome.finding:
            return


def complaint(text: str, stock: str, pipeline: str, seed: int, compiled: bool = True) -> str | None:
    """Check one pipeline; what is wrong, or None."""
    return check(text, stock, [pipeline], seed, compiled).finding or None
