// '' then 'qtranspose-absorb-transposes'
// Upstream aborted on the stride of a slice of one element, which drops another dim.
func.func @main(%x: tensor<2x3x1xf32>, %w: tensor<1x3xf32>) -> tensor<3x3xf32> {
  %c = tensor.collapse_shape %x [[0], [1, 2]] : tensor<2x3x1xf32> into tensor<2x3xf32>
  %e = tensor.empty() : tensor<3x2xf32>
  %t = linalg.transpose ins(%c : tensor<2x3xf32>) outs(%e : tensor<3x2xf32>) permutation = [1, 0]
  %s = tensor.extract_slice %t[0, 1] [3, 1] [1, 2] : tensor<3x2xf32> to tensor<3x1xf32>
  %zero = arith.constant 0.0 : f32
  %f0 = tensor.empty() : tensor<3x3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%f0 : tensor<3x3xf32>) -> tensor<3x3xf32>
  %y = linalg.matmul ins(%s, %w : tensor<3x1xf32>, tensor<1x3xf32>) outs(%f : tensor<3x3xf32>) -> tensor<3x3xf32>
  return %y : tensor<3x3xf32>
}
