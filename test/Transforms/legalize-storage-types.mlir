// RUN: qtranspose-opt %s --qtranspose-legalize-storage-types | FileCheck %s

#id = affine_map<(d0) -> (d0)>

// CHECK-LABEL: func.func @i1(
// CHECK-SAME:      %[[A:.*]]: tensor<4xi8>
// CHECK:         ^bb0(%[[BYTE:.*]]: i8, %[[X:.*]]: f32, %[[Y:.*]]: f32, %{{.*}}: f32):
// CHECK:           %[[P:.*]] = arith.trunci %[[BYTE]] : i8 to i1
// CHECK:           arith.select %[[P]], %[[X]], %[[Y]]
func.func @i1(%a: tensor<4xi1>, %b: tensor<4xf32>, %c: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel"]}
      ins(%a, %b, %c : tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%p: i1, %x: f32, %y: f32, %out: f32):
    %s = arith.select %p, %x, %y : f32
    linalg.yield %s : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// Stock lowering reads [-1, 0, -8, 0] here.

// CHECK-LABEL: func.func @i4_constant
// CHECK:         arith.constant dense<[-1, -8, 7, 3]> : tensor<4xi8>
// CHECK:         ^bb0(%[[BYTE:.*]]: i8, %{{.*}}: i8):
// CHECK:           %[[X:.*]] = arith.trunci %[[BYTE]] : i8 to i4
// CHECK:           arith.extsi %[[X]] : i4 to i8
func.func @i4_constant() -> tensor<4xi8> {
  %w = arith.constant dense<[-1, -8, 7, 3]> : tensor<4xi4>
  %e = tensor.empty() : tensor<4xi8>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%w : tensor<4xi4>) outs(%e : tensor<4xi8>) {
  ^bb0(%x: i4, %out: i8):
    %s = arith.extsi %x : i4 to i8
    linalg.yield %s : i8
  } -> tensor<4xi8>
  return %r : tensor<4xi8>
}

// Stock lowering asserts on the store.

// CHECK-LABEL: func.func @i1_result
// CHECK-SAME:      -> tensor<4xi8>
// CHECK:           %[[P:.*]] = arith.cmpf
// CHECK:           %[[BYTE:.*]] = arith.extui %[[P]] : i1 to i8
// CHECK:           linalg.yield %[[BYTE]] : i8
func.func @i1_result(%a: tensor<4xf32>) -> tensor<4xi1> {
  %e = tensor.empty() : tensor<4xi1>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%a : tensor<4xf32>) outs(%e : tensor<4xi1>) {
  ^bb0(%x: f32, %out: i1):
    %s = arith.cmpf ogt, %x, %x : f32
    linalg.yield %s : i1
  } -> tensor<4xi1>
  return %r : tensor<4xi1>
}

// Two elements a byte, the low one first: 0x8F 0x37 are [-1, -8, 7, 3].

// CHECK-LABEL: func.func @packed_resource
// CHECK:         arith.constant dense_resource<[[$UNPACKED:.*]]> : tensor<4xi8>
func.func @packed_resource() -> tensor<4xi4> {
  %w = arith.constant dense_resource<packed> : tensor<4xi4>
  return %w : tensor<4xi4>
}

// CHECK-LABEL: func.func @unsigned_and_small_floats(%{{.*}}: tensor<2xi8>, %{{.*}}: tensor<2xi8>, %{{.*}}: memref<3xi16>) -> (tensor<2xi8>, tensor<2xi8>)
func.func @unsigned_and_small_floats(%a: tensor<2xui8>, %f: tensor<2xf8E4M3FN>, %m: memref<3xi12>) -> (tensor<2xui8>, tensor<2xf8E4M3FN>) {
  return %a, %f : tensor<2xui8>, tensor<2xf8E4M3FN>
}

// CHECK: [[$UNPACKED]]: "0x{{........}}FFF80703"

{-#
  dialect_resources: {
    builtin: {
      packed: "0x010000008F37"
    }
  }
#-}
