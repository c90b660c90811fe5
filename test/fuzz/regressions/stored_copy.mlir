// '' then 'qtranspose-fold-transpose-into-dequant{multi-use=read}'
// A copy of what is stored took up the transpose, which a second run folded into the op that converts it.
func.func @main(%x: tensor<9x3xf32>, %q: tensor<4x3xi16>, %s: tensor<4xf32>, %i: tensor<9x4xf32>) -> tensor<9x4xf32> {
  %eq = tensor.empty() : tensor<4x3xi16>
  %c = linalg.generic {indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n, k)>],
      iterator_types = ["parallel", "parallel"]} ins(%q : tensor<4x3xi16>) outs(%eq : tensor<4x3xi16>) {
  ^bb0(%a: i16, %o: i16):
    linalg.yield %a : i16
  } -> tensor<4x3xi16>
  %e = tensor.empty() : tensor<4x3xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n)>,
      affine_map<(n, k) -> (n, k)>], iterator_types = ["parallel", "parallel"]}
      ins(%c, %s : tensor<4x3xi16>, tensor<4xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%a: i16, %b: f32, %o: f32):
    %f = arith.sitofp %a : i16 to f32
    %r = arith.mulf %f, %b : f32
    linalg.yield %r : f32
  } -> tensor<4x3xf32>
  %et = tensor.empty() : tensor<3x4xf32>
  %t = linalg.transpose ins(%w : tensor<4x3xf32>) outs(%et : tensor<3x4xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<9x3xf32>, tensor<3x4xf32>) outs(%i : tensor<9x4xf32>) -> tensor<9x4xf32>
  return %y : tensor<9x4xf32>
}
