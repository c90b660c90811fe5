"""The C++ rewrite patterns, for the stock drivers and together with patterns written in Python.

Each function `NAME(context=None)` of this module returns one C++ pattern set as an `mlir.rewrite` frozen set:

    mlir.rewrite.walk_and_apply_patterns(op, qt.patterns.fold_transpose_into_dequant(ctx))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from mlir import rewrite

from qtranspose._mlir import extension, ir
from qtranspose.errors import QTransposeError


def names() -> list[str]:
    """Return the names of the C++ pattern sets, each of which is a function of this module."""
    return extension.pattern_set_names()


def _build(name: str, context: ir.Context | None = None) -> rewrite.FrozenRewritePatternSet:
    context = context or ir.Context.current
    if context is None:
        raise QTransposeError(f"patterns.{name}: no context given and none is current")
    return extension.pattern_set(name, context)


def __getattr__(name: str) -> Callable[[ir.Context | None], rewrite.FrozenRewritePatternSet]:
    if name not in names():
        raise AttributeError(f"module 'qtranspose.patterns' has no attribute {name!r}")
    return partial(_build, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *names()})


def apply_patterns(
    op: ir.Operation | ir.OpView | ir.Module,
    sets: Sequence[rewrite.FrozenRewritePatternSet],
    max_iterations: int = 10,
) -> int:
    """Apply several pattern sets, C++ and Python-written alike, in turn until none of them changes anything.

    One round applies each set once, in the given order, with `mlir.rewrite.walk_and_apply_patterns`: a walk over what
    is nested in `op` (never `op` itself) that neither folds nor erases dead operations, so that what no pattern matches
    stays as it is. Whether a set changed anything is seen from the operations, not from what the patterns return: a
    pattern that claims success but changes nothing does not keep the loop running.

    Limits: within one round a walk does not revisit operations that it created, so chains of rewrites take several
    rounds; benefits order the patterns within a set but not across sets; all sets must belong to the context of `op`;
    an exception in a Python pattern propagates with the rewrites made so far kept in `op`, and so does a bound that is
    hit.

    Args:
        op: what to rewrite.
        sets: the pattern sets.
        max_iterations: the largest number of rounds.

    Returns:
        The number of rounds that changed something.

    Raises:
        QTransposeError: if the last allowed round still changed something: the sets undo each other's work or grow the
            program without end, or need a larger `max_iterations`. Also if `max_iterations` is not positive.
    """
    if max_iterations < 1:
        raise QTransposeError(f"apply_patterns: max_iterations={max_iterations} is not positive")
    root = op.operation
    state = extension.Fingerprint(root)
    for rounds in range(max_iterations):
        changed = False
        for patterns in sets:
            rewrite.walk_and_apply_patterns(root, patterns)
            before, state = state, extension.Fingerprint(root)
            # After each set, not each round: the second set may undo the first, and that is no fixpoint.
            changed |= state != before
        if not changed:
            return rounds
    raise QTransposeError(
        f"apply_patterns: still changing after max_iterations={max_iterations} rounds over {len(sets)} pattern set(s); "
        "do two patterns undo each other?"
    )
