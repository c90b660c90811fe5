// '' then 'qtranspose-static-lhs-to-rhs'
// The rows are those of another operand of the factor than the one that changes sides: they were lost.
func.func @main(%w: tensor<3x?xi8>, %x: tensor<8x?xi16>, %s: tensor<?xf64>) -> tensor<3x8xf64> {
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<3x8xf64>
  %i = linalg.fill ins(%zero : f64) outs(%e : tensor<3x8xf64>) -> tensor<3x8xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(n, k, m) -> (m, k)>, affine_map<(n, k, m) -> (n, k)>,
      affine_map<(n, k, m) -> (k)>, affine_map<(n, k, m) -> (m, n)>],
      iterator_types = ["parallel", "reduction", "parallel"]}
      ins(%w, %x, %s : tensor<3x?xi8>, tensor<8x?xi16>, tensor<?xf64>) outs(%i : tensor<3x8xf64>) {
  ^bb0(%a: i8, %b: i16, %c: f64, %acc: f64):
    %af = arith.sitofp %a : i8 to f64
    %bf = arith.uitofp %b : i16 to f64
    %bs = arith.mulf %bf, %c : f64
    %p = arith.mulf %af, %bs : f64
    %r = arith.addf %acc, %p : f64
    linalg.yield %r : f64
  } -> tensor<3x8xf64>
  return %y : tensor<3x8xf64>
}
