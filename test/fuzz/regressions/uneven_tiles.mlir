// '' then 'qtranspose-fuse-dequant-into-matmul{decision=tile},func.func(qtranspose-tile-fused-dequant{tile-elements=8})'
// The size of uneven tiles is dynamic: a second run cut them again.
func.func @main(%x: tensor<2x3xf32>, %q: tensor<4x3xi8>, %i: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %e = tensor.empty() : tensor<4x3xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n, k)>],
      iterator_types = ["parallel", "parallel"]} ins(%q : tensor<4x3xi8>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%a: i8, %o: f32):
    %r = arith.sitofp %a : i8 to f32
    linalg.yield %r : f32
  } -> tensor<4x3xf32>
  %et = tensor.empty() : tensor<3x4xf32>
  %t = linalg.transpose ins(%w : tensor<4x3xf32>) outs(%et : tensor<3x4xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<2x3xf32>, tensor<3x4xf32>) outs(%i : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
