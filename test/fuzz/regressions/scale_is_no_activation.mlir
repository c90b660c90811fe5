// '' then 'qtranspose-static-lhs-to-rhs'
// The weight on the right has a scale from run time, which was taken for the activation: both sides changed for ever.
func.func @main(%a: tensor<2x3xi8>, %s: tensor<3x4xf32>) -> tensor<2x4xf32> {
  %w = arith.constant dense<[[1, 2, 3, 4], [5, 6, 7, -8], [-1, -2, -3, -4]]> : tensor<3x4xi4>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %w, %s : tensor<2x3xi8>, tensor<3x4xi4>, tensor<3x4xf32>) outs(%i : tensor<2x4xf32>) {
  ^bb0(%p: i8, %q: i4, %r: f32, %acc: f32):
    %pf = arith.sitofp %p : i8 to f32
    %qf = arith.sitofp %q : i4 to f32
    %qs = arith.mulf %qf, %r : f32
    %z = arith.mulf %pf, %qs : f32
    %t = arith.addf %acc, %z : f32
    linalg.yield %t : f32
  } -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
