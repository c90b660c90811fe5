// '' then 'qtranspose-absorb-transposes'
// A copy that takes up a transpose is one, which a second run took up.
func.func @main(%x: tensor<16x5xf32>, %w: tensor<6x16xf32>) -> tensor<6x5xf32> {
  %zero = arith.constant 0.0 : f32
  %f = tensor.empty() : tensor<5x6xf32>
  %i = linalg.fill ins(%zero : f32) outs(%f : tensor<5x6xf32>) -> tensor<5x6xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (n, k)>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<16x5xf32>, tensor<6x16xf32>) outs(%i : tensor<5x6xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<5x6xf32>
  %e = tensor.empty() : tensor<6x5xf32>
  %t = linalg.transpose ins(%y : tensor<5x6xf32>) outs(%e : tensor<6x5xf32>) permutation = [1, 0]
  %c = linalg.generic {indexing_maps = [affine_map<(n, m) -> (n, m)>, affine_map<(n, m) -> (n, m)>],
      iterator_types = ["parallel", "parallel"]} ins(%t : tensor<6x5xf32>) outs(%e : tensor<6x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<6x5xf32>
  return %c : tensor<6x5xf32>
}
