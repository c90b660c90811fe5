// RUN: qtranspose-opt %s --split-input-file --verify-diagnostics --qtranspose-linalg-to-loops

func.func @tensors(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{must be bufferized before it becomes loops}}
  %c = linalg.copy ins(%a : tensor<4xf32>) outs(%b : tensor<4xf32>) -> tensor<4xf32>
  return %c : tensor<4xf32>
}
