// '' then 'qtranspose-default'
// Two results in one buffer were freed twice.
func.func private @twice(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = tensor.empty() : tensor<3xf32>
  %1 = linalg.add ins(%x, %x : tensor<3xf32>, tensor<3xf32>) outs(%0 : tensor<3xf32>) -> tensor<3xf32>
  return %1 : tensor<3xf32>
}
func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %y = call @twice(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %z = call @twice(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %y, %z : tensor<3xf32>, tensor<3xf32>
}
