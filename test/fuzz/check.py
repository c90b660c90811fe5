"""What must hold for a program and a pipeline."""

from __future__ import annotations

import random

import qtranspose as qt
from mlir import ir
from qtranspose.traffic import is_transpose

PIPELINES = (
    "qtranspose-default",
    "qtranspose-default{weights=right}",
    "qtranspose-fold-transpose-into-dequant{multi-use=clone}",
    "qtranspose-fold-transpose-into-dequant{multi-use=read}",
    "qtranspose-fold-transpose-into-dequant{consumer-layout=nk}",
    "qtranspose-fold-transpose-into-dequant{matvec-only}",
    "qtranspose-fuse-dequant-into-matmul{decision=element}",
    "qtranspose-fuse-dequant-into-matmul{decision=tile}",
    "qtranspose-fuse-dequant-into-matmul{decision=tile consumer-layout=kn}",
    "qtranspose-fuse-dequant-into-matmul{decision=materialize consumer-layout=nk}",
    "qtranspose-absorb-transposes",
    "qtranspose-absorb-transposes{into-contractions=false}",
    "qtranspose-static-lhs-to-rhs",
    "qtranspose-static-lhs-to-rhs{batch=batched}",
    "qtranspose-lower-quantized-matmul",
    "qtranspose-lower-quantized-matmul{allow-reassociation}",
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


def count_transposes(module: ir.Module) -> int:
    count = 0

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal count
        count += is_transpose(op.operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return count


def choose(rng: random.Random) -> tuple[str, str]:
    """Return passes to run first, and the pipeline to check: mostly the default."""
    weights = [6, 6, *[1] * (len(PIPELINES) - 2)]
    return rng.choice(STOCK), rng.choices(PIPELINES, weights)[0]


def complaint(text: str, stock: str, pipeline: str, seed: int) -> str | None:
    """Transform, execute before and after, compare; what is wrong, or None."""
    # Every module has a context of its own: resources of one context share their names.
    with ir.Context():
        module = ir.Module.parse(text)
        if stock:
            qt.optimize(module, stock)
        given = str(module)
    with ir.Context() as context, qt.remarks(context) as remarks:
        after = qt.optimize(ir.Module.parse(given), pipeline)
        if not after.operation.verify():
            return "the result is not valid"
        once = str(after)
        if once != given and not any(remark.kind == "passed" for remark in remarks):
            return "changed without a remark"
    if pipeline not in ADD_TRANSPOSES and count_transposes(after) > count_transposes(module):
        return "a transpose at run time was added"
    with ir.Context():
        if str(qt.optimize(ir.Module.parse(once), pipeline)) != once:
            return "a second run changes the result"
    with module.context:
        outcome = qt.verify(module, after, trials=1, seed=seed)
    return None if outcome.ok else str(outcome)
