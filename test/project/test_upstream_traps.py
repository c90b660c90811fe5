"""What stock MLIR 22.1.8 gets wrong, and that nothing here relies on it. A test of a trap that fails after an update of
MLIR says that the trap is gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import qtranspose as qt
from mlir import ir, rewrite

ROOT = Path(__file__).parents[2]
SOURCES = [
    path
    for folder in ("mlir_passes", "python/qtranspose", "python/bindings")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".cpp", ".h", ".td", ".py")
]
UNUSED = {
    "named ops from generics": r"linalg-specialize-generic-ops|linalg-morph-ops|specializeGenericOp",
    "transpose_matmul": r"transpose_matmul|transposeMatmul|TransposeMatmul",
    "the greedy driver": r"applyPatterns(AndFold)?Greedily|applyOpPatternsGreedily|apply_patterns_and_fold_greedily",
    "lower-quant-ops": r"lower-quant-ops|createLowerQuantOps",
}


def code(path: Path) -> str:
    """The text of a source without comments and docstrings."""
    comment = r'#.*|"{3}(?s:.*?)"{3}' if path.suffix == ".py" else "//.*"
    return re.sub(comment, "", path.read_text())


# PITFALL 1, 2, 4, 9b
@pytest.mark.parametrize("trap", UNUSED)
def test_a_trap_is_not_used(trap: str) -> None:
    assert len(SOURCES) > 50
    assert [path.name for path in SOURCES if re.search(UNUSED[trap], code(path))] == []


MATMUL = """
func.func @f(%x: tensor<4x4x4xi8>, %w: tensor<4x4x4xi8>, %init: tensor<4x4x4xi32>) -> tensor<4x4x4xi32> {
  %y = linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (b, k, n)>,
      affine_map<(b, m, n, k) -> (RESULT)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x4x4xi8>, tensor<4x4x4xi8>) outs(%init : tensor<4x4x4xi32>) {
  ^bb0(%a: i8, %b: i8, %acc: i32):
    %c = arith.EXTi %a : i8 to i32
    %d = arith.EXTi %b : i8 to i32
    %p = arith.muli %c, %d : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  } -> tensor<4x4x4xi32>
  return %y : tensor<4x4x4xi32>
}
"""
MORPHS = ["linalg-specialize-generic-ops", "linalg-morph-ops{generic-to-named}"]


# PITFALL 1
@pytest.mark.parametrize("morph", MORPHS)
@pytest.mark.parametrize(("ext", "right"), [("exts", True), ("extu", False)])
def test_named_ops_from_generics_lose_signs(morph: str, ext: str, right: bool) -> None:
    with ir.Context():
        module = ir.Module.parse(MATMUL.replace("RESULT", "b, m, n").replace("EXT", ext))
        assert qt.verify(module, pipeline=f"func.func({morph})").ok == right


# PITFALL 1
@pytest.mark.parametrize("morph", MORPHS)
def test_named_ops_from_generics_do_not_fit_transposed_results(morph: str) -> None:
    with ir.Context():
        module = ir.Module.parse(MATMUL.replace("RESULT", "b, n, m").replace("EXT", "exts"))
        with pytest.raises(qt.QTransposeError, match=r"'linalg\.batch_matmul' op Invalid"):
            qt.optimize(module, f"func.func({morph})")


TRANSPOSABLE = """
module attributes {transform.with_named_sequence} {
  func.func @f(%x: tensor<3x4xi8>, %w: tensor<4x5xi8>, %init: tensor<3x5xi32>) -> tensor<3x5xi32> {
    %y = linalg.matmul {cast = #linalg.type_fn<cast_unsigned>} ins(%x, %w : tensor<3x4xi8>, tensor<4x5xi8>)
        outs(%init : tensor<3x5xi32>) -> tensor<3x5xi32>
    return %y : tensor<3x5xi32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %m = transform.structured.match ops{["linalg.matmul"]} in %root : (!transform.any_op) -> !transform.any_op
    %t = transform.structured.transpose_matmul %m : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""


# PITFALL 2
def test_transpose_matmul_loses_the_cast() -> None:
    with ir.Context():
        module = ir.Module.parse(TRANSPOSABLE)
        qt.optimize(module, "transform-interpreter")
        assert "linalg.transpose" in str(module)
        assert "cast_unsigned" not in str(module)


# PITFALL 9b
def test_the_greedy_driver_changes_modules_without_patterns() -> None:
    with ir.Context():
        module = ir.Module.parse("func.func @f() {\n  %dead = arith.constant 7 : i32\n  return\n}")
        rewrite.apply_patterns_and_fold_greedily(module, rewrite.RewritePatternSet().freeze())
        assert "arith.constant" not in str(module)


# PITFALL 20
def test_transposes_between_element_types_are_no_ir() -> None:
    with ir.Context(), pytest.raises(ir.MLIRError, match=r"linalg\.yield"):
        ir.Module.parse("""
            func.func @f(%a: tensor<3x5xf32>, %b: tensor<5x3xf16>) -> tensor<5x3xf16> {
              %t = linalg.transpose ins(%a : tensor<3x5xf32>) outs(%b : tensor<5x3xf16>) permutation = [1, 0]
              return %t : tensor<5x3xf16>
            }""")
