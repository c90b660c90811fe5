// RUN: qtranspose-opt %s --qtranspose-decompose-aggregates | FileCheck %s --implicit-check-not=linalg.softmax --implicit-check-not=linalg.pack

// CHECK-LABEL: func.func @softmax
// CHECK:         arith.maxnumf
// CHECK:         math.exp
// CHECK:         arith.addf
// CHECK:         arith.divf
func.func @softmax(%x: tensor<2x3xf32>, %o: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %r = linalg.softmax dimension(1) ins(%x : tensor<2x3xf32>) outs(%o : tensor<2x3xf32>) -> tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @pack
// CHECK:         tensor.expand_shape
// CHECK:         linalg.transpose
func.func @pack(%x: tensor<4x6xf32>, %o: tensor<2x3x2x2xf32>) -> tensor<2x3x2x2xf32> {
  %r = linalg.pack %x inner_dims_pos = [0, 1] inner_tiles = [2, 2] into %o : tensor<4x6xf32> -> tensor<2x3x2x2xf32>
  return %r : tensor<2x3x2x2xf32>
}

// Two dynamic sizes in one group.

// CHECK-LABEL: func.func @expand(
// CHECK-SAME:      %[[X:.*]]: tensor<?x4xf32>, %[[M:.*]]: index, %[[N:.*]]: index
// CHECK:         %[[SHAPE:.*]] = tensor.from_elements %[[M]], %[[N]], %{{.*}} : tensor<3xindex>
// CHECK:         tensor.reshape %[[X]](%[[SHAPE]])
func.func @expand(%x: tensor<?x4xf32>, %m: index, %n: index) -> tensor<?x?x4xf32> {
  %r = tensor.expand_shape %x [[0, 1], [2]] output_shape [%m, %n, 4] : tensor<?x4xf32> into tensor<?x?x4xf32>
  return %r : tensor<?x?x4xf32>
}

// No element takes the step of a dim of one.

// CHECK-LABEL: func.func @idle_strides
// CHECK:         tensor.extract_slice %{{.*}}[1, 0] [1, 3] [1, 2] : tensor<4x6xf32> to tensor<1x3xf32>
// CHECK:         tensor.insert_slice %{{.*}} into %{{.*}}[1, 0] [1, 3] [1, 2] : tensor<1x3xf32> into tensor<4x6xf32>
func.func @idle_strides(%x: tensor<4x6xf32>, %y: tensor<1x3xf32>, %s: index) -> (tensor<1x3xf32>, tensor<4x6xf32>) {
  %a = tensor.extract_slice %x[1, 0] [1, 3] [%s, 2] : tensor<4x6xf32> to tensor<1x3xf32>
  %b = tensor.insert_slice %y into %x[1, 0] [1, 3] [2, 2] : tensor<1x3xf32> into tensor<4x6xf32>
  return %a, %b : tensor<1x3xf32>, tensor<4x6xf32>
}

// Of nothing, there is nothing to cut or join.

// CHECK-LABEL: func.func @nothing(
// CHECK-SAME:      %[[X:.*]]: tensor<0x3xf32>, %[[Y:.*]]: tensor<2x3xf32>
// CHECK-NOT:     tensor.extract_slice
// CHECK-NOT:     tensor.insert_slice
// CHECK-DAG:     %[[A:.*]] = tensor.empty() : tensor<0x6xf32>
// CHECK-DAG:     %[[B:.*]] = tensor.concat dim(0) %[[Y]] : (tensor<2x3xf32>) -> tensor<2x3xf32>
// CHECK-DAG:     %[[C:.*]] = tensor.empty() : tensor<0x2xf32>
// CHECK:         return %[[A]], %[[B]], %[[C]], %[[Y]]
func.func @nothing(%x: tensor<0x3xf32>, %y: tensor<2x3xf32>)
    -> (tensor<0x6xf32>, tensor<2x3xf32>, tensor<0x2xf32>, tensor<2x3xf32>) {
  %a = tensor.concat dim(1) %x, %x : (tensor<0x3xf32>, tensor<0x3xf32>) -> tensor<0x6xf32>
  %b = tensor.concat dim(0) %x, %y : (tensor<0x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = tensor.extract_slice %y[0, 0] [0, 2] [1, 1] : tensor<2x3xf32> to tensor<0x2xf32>
  %d = tensor.insert_slice %x into %y[0, 0] [0, 3] [1, 1] : tensor<0x3xf32> into tensor<2x3xf32>
  return %a, %b, %c, %d : tensor<0x6xf32>, tensor<2x3xf32>, tensor<0x2xf32>, tensor<2x3xf32>
}
