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
// PITFALL 6
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
// PITFALL 6
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
// CHECK:         arith.constant dense<[-1, -8, 7, 3]> : tensor<4xi8>
// PITFALL 8
func.func @packed_resource() -> tensor<4xi4> {
  %w = arith.constant dense_resource<packed> : tensor<4xi4>
  return %w : tensor<4xi4>
}

// CHECK-LABEL: func.func @unsigned_and_small_floats(%{{.*}}: tensor<2xi8>, %{{.*}}: tensor<2xi8>, %{{.*}}: memref<3xi16>) -> (tensor<2xi8>, tensor<2xi8>)
func.func @unsigned_and_small_floats(%a: tensor<2xui8>, %f: tensor<2xf8E4M3FN>, %m: memref<3xi12>) -> (tensor<2xui8>, tensor<2xf8E4M3FN>) {
  return %a, %f : tensor<2xui8>, tensor<2xf8E4M3FN>
}

// Every op that reads or makes a scalar converts it.

// CHECK-LABEL: func.func @scalars(
// CHECK-SAME:      %[[A:.*]]: tensor<?xi8>, %[[I:.*]]: index, %[[X:.*]]: i4) -> (i4, tensor<?xi8>, tensor<2xi8>, tensor<?xi8>)
// CHECK:         %[[BYTE:.*]] = tensor.extract %[[A]][%[[I]]] : tensor<?xi8>
// CHECK:         %[[E:.*]] = arith.trunci %[[BYTE]] : i8 to i4
// CHECK:         %[[S:.*]] = arith.extsi %[[X]] : i4 to i8
// CHECK:         tensor.insert %[[S]] into %[[A]]
// CHECK:         tensor.from_elements
// CHECK:         tensor.pad
// CHECK:           tensor.yield %{{.*}} : i8
// CHECK:         return %[[E]]
func.func @scalars(%a: tensor<?xi4>, %i: index, %x: i4) -> (i4, tensor<?xi4>, tensor<2xi4>, tensor<?xi4>) {
  %e = tensor.extract %a[%i] : tensor<?xi4>
  %b = tensor.insert %x into %a[%i] : tensor<?xi4>
  %f = tensor.from_elements %e, %x : tensor<2xi4>
  %p = tensor.pad %a low[1] high[%i] {
  ^bb0(%j: index):
    tensor.yield %x : i4
  } : tensor<?xi4> to tensor<?xi4>
  return %e, %b, %f, %p : i4, tensor<?xi4>, tensor<2xi4>, tensor<?xi4>
}

// A named op is written out; a single bit is extended by zeros.

// CHECK-LABEL: func.func @named(
// CHECK-NOT:     linalg.fill
// CHECK:         linalg.generic
// CHECK:           %[[BYTE:.*]] = arith.extui %{{.*}} : i1 to i8
// CHECK:           linalg.yield %[[BYTE]] : i8
func.func @named(%p: i1, %o: tensor<3xi1>) -> tensor<3xi1> {
  %r = linalg.fill ins(%p : i1) outs(%o : tensor<3xi1>) -> tensor<3xi1>
  return %r : tensor<3xi1>
}

// The bits above the width of an element are its sign or zero: reading them in another way changes them.

// CHECK-LABEL: func.func @bitcast(
// CHECK-SAME:      %[[A:.*]]: tensor<?xi8>, %[[F:.*]]: tensor<2xi8>) -> (tensor<?xi8>, tensor<2xi8>)
// CHECK-NOT:     tensor.bitcast
// CHECK:         %[[R:.*]] = linalg.generic {{.*}} ins(%[[A]] : tensor<?xi8>)
// CHECK:           %[[X:.*]] = arith.trunci %{{.*}} : i8 to i4
// CHECK:           arith.extui %[[X]] : i4 to i8
// CHECK:         return %[[R]], %[[F]]
func.func @bitcast(%a: tensor<?xi4>, %f: tensor<2xf8E4M3FN>) -> (tensor<?xui4>, tensor<2xi8>) {
  %u = tensor.bitcast %a : tensor<?xi4> to tensor<?xui4>
  %b = tensor.bitcast %f : tensor<2xf8E4M3FN> to tensor<2xi8>
  return %u, %b : tensor<?xui4>, tensor<2xi8>
}

// CHECK-LABEL: func.func @splat_and_sparse
// CHECK-DAG:     arith.constant dense<1> : tensor<4xi8>
// CHECK-DAG:     arith.constant dense<[1, 0, 0]> : tensor<3xi8>
// CHECK-DAG:     arith.constant sparse<{{.*}}, -3> : tensor<4xi8>
// CHECK-DAG:     arith.constant dense<[56, -72]> : tensor<2xi8>
func.func @splat_and_sparse() -> (tensor<4xi1>, tensor<3xi1>, tensor<4xi4>, tensor<2xf8E4M3FN>) {
  %a = arith.constant dense<true> : tensor<4xi1>
  %b = arith.constant dense<[true, false, false]> : tensor<3xi1>
  %c = arith.constant sparse<[[1]], [-3]> : tensor<4xi4>
  %d = arith.constant dense<[1.0, -1.0]> : tensor<2xf8E4M3FN>
  return %a, %b, %c, %d : tensor<4xi1>, tensor<3xi1>, tensor<4xi4>, tensor<2xf8E4M3FN>
}

{-#
  dialect_resources: {
    builtin: {
      packed: "0x010000008F37"
    }
  }
#-}
