// '' then 'qtranspose-static-lhs-to-rhs'
// The rows are those of another operand of the factor than the one that changes sides: they were lost.
func.func @main(%w: tensor<3x2xi8>, %s: tensor<2xf64>) -> tensor<3x4xf64> {
  %x = arith.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf64>
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<3x4xf64>
  %i = linalg.fill ins(%zero : f64) outs(%e : tensor<3x4xf64>) -> tensor<3x4xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(n, k, m) -> (m, k)>, affine_map<(n, k, m) -> (n, k)>,
      affine_map<(n, k, m) -> (k)>, affine_map<(n, k, m) -> (m, n)>],
      iterator_types = ["parallel", "reduction", "parallel"]}
      ins(%w, %x, %s : tensor<3x2xi8>, tensor<4x2xf64>, tensor<2xf64>) outs(%i : tensor<3x4xf64>) {
  ^bb0(%a: i8, %b: f64, %c: f64, %acc: f64):
    %af = arith.sitofp %a : i8 to f64
    %bs = arith.mulf %b, %c : f64
    %p = arith.mulf %af, %bs : f64
    %r = arith.addf %acc, %p : f64
    linalg.yield %r : f64
  } -> tensor<3x4xf64>
  return %y : tensor<3x4xf64>
}
