# RUN: %PYTHON %s | FileCheck %s
"""The C++ fold patterns under the stock drivers and `qt.apply_patterns`: they agree, and leave the rest alone."""

from collections.abc import Callable

import qtranspose as qt
from mlir import ir, rewrite
from mlir.passmanager import PassManager

# Two transposes that meet below a dequantization, one above it, a refused one, a dead constant and a duplicate.
SOURCE = """
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @f(%q: tensor<3x5xi8>, %scale: tensor<3xf32>, %s: tensor<3x5xi8>, %x: tensor<3x5xf32>)
    -> (tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>) {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %g = tensor.empty() : tensor<5x3xi8>
  %0 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %scale : tensor<3x5xi8>, tensor<3xf32>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %k: f32, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    %b = arith.mulf %a, %k : f32
    linalg.yield %b : f32
  } -> tensor<3x5xf32>
  %t0 = linalg.transpose ins(%0 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %t1 = linalg.transpose ins(%t0 : tensor<5x3xf32>) outs(%e : tensor<3x5xf32>) permutation = [1, 0]
  %t2 = linalg.transpose ins(%t1 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %u = linalg.transpose ins(%s : tensor<3x5xi8>) outs(%g : tensor<5x3xi8>) permutation = [1, 0]
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%u : tensor<5x3xi8>) outs(%f : tensor<5x3xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.uitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<5x3xf32>
  %v = linalg.transpose ins(%x : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t2, %1, %v : tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>
}
"""

Driver = Callable[[ir.Module, rewrite.FrozenRewritePatternSet], None]


def walk(module: ir.Module, patterns: rewrite.FrozenRewritePatternSet) -> None:
    for _ in range(3):
        rewrite.walk_and_apply_patterns(module.operation, patterns)


def greedy(module: ir.Module, patterns: rewrite.FrozenRewritePatternSet) -> None:
    rewrite.apply_patterns_and_fold_greedily(module, patterns)


def loop(module: ir.Module, patterns: rewrite.FrozenRewritePatternSet) -> None:
    rounds = qt.apply_patterns(module, [patterns])
    assert rounds >= 1


def run(driver: Driver) -> str:
    with ir.Context() as context:
        module = ir.Module.parse(SOURCE)
        driver(module, qt.patterns.fold_transpose_into_dequant(context))
        assert module.operation.verify()
        # Only the greedy driver erases what has been replaced.
        PassManager.parse("builtin.module(canonicalize,cse)").run(module.operation)
        return str(module)


# CHECK-DAG: #[[ID:.+]] = affine_map<(d0, d1) -> (d0, d1)>
# CHECK-DAG: #[[PERMUTED:.+]] = affine_map<(d0, d1) -> (d1, d0)>
# CHECK-DAG: #[[AXIS:.+]] = affine_map<(d0, d1) -> (d1)>
# CHECK: func.func @f(%[[Q:[^ :]+]]: tensor<3x5xi8>, %[[SCALE:[^ :]+]]: {{.+}}, %[[S:[^ :]+]]: {{.+}}, %[[X:[^ :]+]]:
# CHECK: %[[A:.+]] = linalg.generic {indexing_maps = [#[[PERMUTED]], #[[AXIS]], #[[ID]]]
# CHECK-SAME: ins(%[[Q]], %[[SCALE]] :
# CHECK: %[[B:.+]] = linalg.generic {indexing_maps = [#[[PERMUTED]], #[[ID]]]
# CHECK-SAME: ins(%[[S]] :
# CHECK: %[[C:.+]] = linalg.transpose ins(%[[X]] :
# CHECK: return %[[A]], %[[B]], %[[C]] :
results = {run(driver) for driver in (walk, greedy, loop)}
assert len(results) == 1, "the drivers disagree"
print(results.pop())

# What is refused stays byte-identical, dead operations and duplicate constants included.
# CHECK: refused: True 0
REFUSED = """
func.func @f(%x: tensor<3x5xf32>) -> tensor<5x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %f = tensor.empty() : tensor<5x3xf32>
  %0 = arith.negf %x : tensor<3x5xf32>
  %t = linalg.transpose ins(%0 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}
"""
with ir.Context() as context:
    module = ir.Module.parse(REFUSED)
    before = str(module)
    rounds = qt.apply_patterns(module, [qt.patterns.fold_transpose_into_dequant(context)])
    print("refused:", str(module) == before, rounds)
