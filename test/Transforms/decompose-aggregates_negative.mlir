// What later lowerings take stays as it is.

// RUN: qtranspose-opt %s -o %t.before
// RUN: qtranspose-opt %s --qtranspose-decompose-aggregates -o %t.after
// RUN: diff %t.before %t.after
// RUN: FileCheck %s --input-file=%t.after

// CHECK-LABEL: func.func @one_dynamic_size
// CHECK:         tensor.expand_shape
// CHECK:         tensor.extract_slice %{{.*}}[0, 0] [2, 3] [2, 2]
func.func @one_dynamic_size(%x: tensor<?x4xf32>, %m: index, %y: tensor<4x6xf32>) -> (tensor<?x2x4xf32>, tensor<2x3xf32>) {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %r = tensor.expand_shape %x [[0, 1], [2]] output_shape [%m, 2, 4] : tensor<?x4xf32> into tensor<?x2x4xf32>
  %s = tensor.extract_slice %y[0, 0] [2, 3] [2, 2] : tensor<4x6xf32> to tensor<2x3xf32>
  return %r, %s : tensor<?x2x4xf32>, tensor<2x3xf32>
}
