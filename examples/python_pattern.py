"""Rewrite patterns written in Python, beside the C++ ones of qtranspose.

Query and key projections often share one weight: it is dequantized as a whole, sliced, and each slice is transposed.
The fold patterns leave a transpose below a slice alone. A pattern written in Python moves the transpose above the
slice, after which the C++ pattern folds it; `qt.apply_patterns` alternates the two until nothing changes.

Usage: python examples/python_pattern.py
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import qtranspose as qt
from mlir import ir, rewrite
from mlir.dialects import linalg, tensor

MODULE = """
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @qk(%x: tensor<2x5xf32>, %w: tensor<7x5xi8>, %scale: tensor<7xf32>) -> (tensor<2x3xf32>, tensor<2x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<7x5xf32>
  %d = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%w, %scale : tensor<7x5xi8>, tensor<7xf32>) outs(%e : tensor<7x5xf32>) {
  ^bb0(%in: i8, %s: f32, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    %b = arith.mulf %a, %s : f32
    linalg.yield %b : f32
  } -> tensor<7x5xf32>
  %q0 = tensor.extract_slice %d[0, 0] [3, 5] [1, 1] : tensor<7x5xf32> to tensor<3x5xf32>
  %qe = tensor.empty() : tensor<5x3xf32>
  %q1 = linalg.transpose ins(%q0 : tensor<3x5xf32>) outs(%qe : tensor<5x3xf32>) permutation = [1, 0]
  %qz = tensor.empty() : tensor<2x3xf32>
  %qi = linalg.fill ins(%zero : f32) outs(%qz : tensor<2x3xf32>) -> tensor<2x3xf32>
  %q = linalg.matmul ins(%x, %q1 : tensor<2x5xf32>, tensor<5x3xf32>) outs(%qi : tensor<2x3xf32>) -> tensor<2x3xf32>
  %k0 = tensor.extract_slice %d[3, 0] [4, 5] [1, 1] : tensor<7x5xf32> to tensor<4x5xf32>
  %ke = tensor.empty() : tensor<5x4xf32>
  %k1 = linalg.transpose ins(%k0 : tensor<4x5xf32>) outs(%ke : tensor<5x4xf32>) permutation = [1, 0]
  %kz = tensor.empty() : tensor<2x4xf32>
  %ki = linalg.fill ins(%zero : f32) outs(%kz : tensor<2x4xf32>) -> tensor<2x4xf32>
  %k = linalg.matmul ins(%x, %k1 : tensor<2x5xf32>, tensor<5x4xf32>) outs(%ki : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %q, %k : tensor<2x3xf32>, tensor<2x4xf32>
}
"""


def transpose_before_slice(op: linalg.TransposeOp, rewriter: rewrite.PatternRewriter) -> bool | None:
    """Rewrite `transpose(extract_slice(w))` to `extract_slice(transpose(w))`; true means that nothing was done."""
    source = op.operands[0]
    if isinstance(source, ir.BlockArgument) or not isinstance(source.owner.opview, tensor.ExtractSliceOp):
        return True
    piece = source.owner.opview
    whole = ir.RankedTensorType(piece.source.type)
    permutation = list(op.permutation)
    dynamic = [*piece.offsets, *piece.sizes, *piece.strides]
    if dynamic or not whole.has_static_shape or whole.rank != len(permutation):
        return True  # Sizes known only at run time, or a slice that drops dimensions.

    def permute(values: Any) -> list[int]:
        return [list(values)[dim] for dim in permutation]

    with rewriter.ip, op.operation.location:
        init = tensor.empty(permute(whole.shape), whole.element_type)
        turned = linalg.transpose(piece.source, outs=[init], permutation=permutation)
        result = tensor.ExtractSliceOp(
            op.operation.results[0].type,
            turned.results[0],
            [],
            [],
            [],
            permute(piece.static_offsets),
            permute(piece.static_sizes),
            permute(piece.static_strides),
        )
        rewriter.replace_op(op.operation, result.operation)
    return None


def python_patterns(context: ir.Context) -> rewrite.FrozenRewritePatternSet:
    """Return the pattern above as a set of its own."""
    patterns = rewrite.RewritePatternSet(context)
    patterns.add(linalg.TransposeOp, transpose_before_slice)
    return patterns.freeze()


def transposes(module: ir.Module) -> int:
    """Count the named transposes of a module."""
    return str(module).count("linalg.transpose")


def main() -> int:
    """Fold with the C++ patterns alone, then with both sets; run the result against NumPy."""
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 5), dtype=np.float32)
    w = random.integers(-128, 128, (7, 5), dtype=np.int8)
    scale = random.uniform(0.5, 1.5, 7).astype(np.float32)
    expected = x.astype(np.float64) @ (w.astype(np.float64) * scale[:, None]).T

    with ir.Context() as context:
        fold = qt.patterns.fold_transpose_into_dequant(context)
        module = ir.Module.parse(MODULE)
        qt.apply_patterns(module, [fold])
        print(f"C++ patterns alone: {transposes(module)} transposes left")
        rounds = qt.apply_patterns(module, [python_patterns(context), fold])
        print(f"with the Python pattern: {transposes(module)} transposes left after {rounds} round(s)")
        result = np.concatenate(qt.compile(module)(x, w, scale), axis=1)
    error = float(np.abs(result - expected).max() / np.abs(expected).max())
    print(f"agrees with NumPy: {error < 1e-5}")
    return 0 if transposes(module) == 0 and error < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
