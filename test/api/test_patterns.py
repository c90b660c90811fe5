"""`qt.patterns` and `qt.apply_patterns`: sets of both languages, to a fixpoint, within a bound."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import qtranspose as qt
from mlir import ir, rewrite
from mlir.dialects import arith

EXAMPLE = Path(__file__).parents[2] / "examples" / "python_pattern.py"
ADDS = """
func.func @f(%a: i32) -> i32 {
  %0 = arith.addi %a, %a : i32
  %dead = arith.constant 7 : i32
  return %0 : i32
}"""


def frozen(root: Any, function: Any) -> rewrite.FrozenRewritePatternSet:
    patterns = rewrite.RewritePatternSet()
    patterns.add(root, function)
    return patterns.freeze()


def become(cls: Any) -> Any:
    """A rewrite to the binary op `cls` of the same operands."""

    def rewrite_it(op: ir.OpView, rewriter: rewrite.PatternRewriter) -> None:
        with rewriter.ip, op.operation.location:
            rewriter.replace_op(op, cls(op.operands[0], op.operands[1]))

    return rewrite_it


def test_the_example_runs() -> None:
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "C++ patterns alone: 2 transposes left",
        "with the Python pattern: 0 transposes left after 1 round(s)",
        "agrees with NumPy: True",
    ]


def test_every_cpp_set_is_a_stock_pattern_set() -> None:
    assert "fold_transpose_into_dequant" in qt.patterns.names()
    with ir.Context() as context:
        for name in qt.patterns.names():
            assert name in dir(qt.patterns)
            assert isinstance(getattr(qt.patterns, name)(), rewrite.FrozenRewritePatternSet)
            assert isinstance(getattr(qt.patterns, name)(context), rewrite.FrozenRewritePatternSet)


def test_a_set_needs_a_context() -> None:
    with pytest.raises(qt.QTransposeError, match="no context"):
        qt.patterns.fold_transpose_into_dequant()


def test_an_unknown_set_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_set"):
        qt.patterns.no_such_set  # noqa: B018


def test_sets_apply_in_turn_until_nothing_changes() -> None:
    """addi -> muli -> subi; the sets are in the order that needs a second round for the second step."""
    with ir.Context():
        sets = [frozen(arith.MulIOp, become(arith.SubIOp)), frozen(arith.AddIOp, become(arith.MulIOp))]
        module = ir.Module.parse(ADDS)
        assert qt.apply_patterns(module, sets) == 2
        assert "arith.subi" in str(module)
        assert qt.apply_patterns(module, sets) == 0


# PITFALL 9b
def test_what_no_pattern_matches_stays_as_it_is() -> None:
    """No folding and no dead-code elimination: the printed module is byte-identical."""
    with ir.Context() as context:
        module = ir.Module.parse(ADDS)
        before = str(module)
        assert qt.apply_patterns(module, [qt.patterns.fold_transpose_into_dequant(context)]) == 0
        assert str(module) == before


def test_no_sets_is_no_change() -> None:
    with ir.Context():
        assert qt.apply_patterns(ir.Module.parse(ADDS), []) == 0


def test_sets_that_undo_each_other_hit_the_bound() -> None:
    """A round whose second set undoes the first is not a fixpoint, nor is replacing an operation by its like."""
    with ir.Context():
        there, back = frozen(arith.AddIOp, become(arith.MulIOp)), frozen(arith.MulIOp, become(arith.AddIOp))
        module = ir.Module.parse(ADDS)
        with pytest.raises(qt.QTransposeError, match="still changing after max_iterations=4 rounds over 1 pattern set"):
            qt.apply_patterns(module, [frozen(arith.AddIOp, become(arith.AddIOp))], max_iterations=4)
        with pytest.raises(qt.QTransposeError, match="max_iterations=10 rounds over 2"):
            qt.apply_patterns(module, [there, back])
        assert module.operation.verify()


def test_a_bound_that_is_just_enough() -> None:
    with ir.Context():
        sets = [frozen(arith.MulIOp, become(arith.SubIOp)), frozen(arith.AddIOp, become(arith.MulIOp))]
        assert qt.apply_patterns(ir.Module.parse(ADDS), sets, max_iterations=3) == 2
        with pytest.raises(qt.QTransposeError, match="max_iterations=2"):
            qt.apply_patterns(ir.Module.parse(ADDS), sets, max_iterations=2)


@pytest.mark.parametrize("bound", [0, -1])
def test_a_bound_below_one_is_refused(bound: int) -> None:
    with ir.Context(), pytest.raises(qt.QTransposeError, match="max_iterations"):
        qt.apply_patterns(ir.Module.parse(ADDS), [], max_iterations=bound)


def test_a_pattern_that_claims_success_but_does_nothing_terminates() -> None:
    with ir.Context():
        assert qt.apply_patterns(ir.Module.parse(ADDS), [frozen(arith.AddIOp, lambda op, rewriter: None)]) == 0


def test_a_change_of_an_attribute_alone_is_seen() -> None:
    def mark(op: ir.OpView, rewriter: rewrite.PatternRewriter) -> bool:
        if "marked" in op.operation.attributes:
            return True
        op.operation.attributes["marked"] = ir.UnitAttr.get()
        return False

    with ir.Context():
        module = ir.Module.parse(ADDS)
        assert qt.apply_patterns(module, [frozen(arith.AddIOp, mark)]) == 1
        assert "marked" in str(module)


def test_an_exception_in_a_pattern_reaches_the_caller() -> None:
    def fail(op: ir.OpView, rewriter: rewrite.PatternRewriter) -> None:
        raise ZeroDivisionError("in the pattern")

    with ir.Context():
        module = ir.Module.parse(ADDS)
        with pytest.raises(ZeroDivisionError, match="in the pattern"):
            qt.apply_patterns(module, [frozen(arith.AddIOp, fail)])
        assert module.operation.verify()


def test_it_works_on_any_operation() -> None:
    with ir.Context():
        module = ir.Module.parse(ADDS + ADDS.replace("@f", "@g"))
        first, second = module.body.operations
        assert qt.apply_patterns(first, [frozen(arith.AddIOp, become(arith.MulIOp))]) == 1
        assert "arith.muli" in str(first)
        assert "arith.muli" not in str(second)
