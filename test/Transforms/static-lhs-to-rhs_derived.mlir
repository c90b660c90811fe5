// Derived constants: shared by what is equal, apart from what is not.

// RUN: qtranspose-opt %s --split-input-file --qtranspose-static-lhs-to-rhs --mlir-print-local-scope | FileCheck %s

// Neither later clean-ups nor a second run move a weight again.

// RUN: qtranspose-opt %s --split-input-file --qtranspose-static-lhs-to-rhs --canonicalize --cse \
// RUN:   --linalg-fuse-elementwise-ops --canonicalize -o %t.clean
// RUN: qtranspose-opt %t.clean --split-input-file --qtranspose-static-lhs-to-rhs -o %t.again
// RUN: diff %t.clean %t.again

// Two resources of other names and equal data have one transpose; one of equal data and another shape has its own.

// CHECK-LABEL: func.func @equal_data(
// CHECK-DAG:     %[[A:.*]] = arith.constant {qtranspose.derived = {map = affine_map<(d0, d1) -> (d1, d0)>, source = "one", source_type = tensor<2x3xi8>}} dense_resource<one_derived> : tensor<3x2xi8>
// CHECK-DAG:     %[[B:.*]] = arith.constant {qtranspose.derived = {map = affine_map<(d0, d1) -> (d1, d0)>, source = "three", source_type = tensor<3x2xi8>}} dense_resource<three_derived> : tensor<2x3xi8>
// CHECK-NOT:     arith.constant
// CHECK:         linalg.matmul ins(%{{.*}}, %[[A]] : tensor<4x3xi8>, tensor<3x2xi8>)
// CHECK:         linalg.matmul ins(%{{.*}}, %[[A]] : tensor<4x3xi8>, tensor<3x2xi8>)
// CHECK:         linalg.matmul ins(%{{.*}}, %[[B]] : tensor<4x2xi8>, tensor<2x3xi8>)
// PITFALL 28, 30
func.func @equal_data(%x: tensor<3x4xi8>, %y: tensor<2x4xi8>, %i: tensor<2x4xi32>, %j: tensor<3x4xi32>) -> (tensor<2x4xi32>, tensor<2x4xi32>, tensor<3x4xi32>) {
  %w = arith.constant dense_resource<one> : tensor<2x3xi8>
  %v = arith.constant dense_resource<two> : tensor<2x3xi8>
  %u = arith.constant dense_resource<three> : tensor<3x2xi8>
  %0 = linalg.matmul ins(%w, %x : tensor<2x3xi8>, tensor<3x4xi8>) outs(%i : tensor<2x4xi32>) -> tensor<2x4xi32>
  %1 = linalg.matmul ins(%v, %x : tensor<2x3xi8>, tensor<3x4xi8>) outs(%i : tensor<2x4xi32>) -> tensor<2x4xi32>
  %2 = linalg.matmul ins(%u, %y : tensor<3x2xi8>, tensor<2x4xi8>) outs(%j : tensor<3x4xi32>) -> tensor<3x4xi32>
  return %0, %1, %2 : tensor<2x4xi32>, tensor<2x4xi32>, tensor<3x4xi32>
}

// Functions have constants of their own, of the same data.

// CHECK-LABEL: func.func @another_function(
// CHECK:         arith.constant {{.*}} dense_resource<one_derived> : tensor<3x2xi8>
// PITFALL 28
func.func @another_function(%x: tensor<3x4xi8>, %i: tensor<2x4xi32>) -> tensor<2x4xi32> {
  %w = arith.constant dense_resource<two> : tensor<2x3xi8>
  %0 = linalg.matmul ins(%w, %x : tensor<2x3xi8>, tensor<3x4xi8>) outs(%i : tensor<2x4xi32>) -> tensor<2x4xi32>
  return %0 : tensor<2x4xi32>
}

{-#
  dialect_resources: {
    builtin: {
      one: "0x01000000010200FF0003",
      two: "0x01000000010200FF0003",
      three: "0x01000000010200FF0003"
    }
  }
#-}

// -----

// A weight and its transpose, both on the left.

// CHECK-LABEL: func.func @both_ways(
// CHECK-DAG:     arith.constant {{.*}} dense<{{\[}}[1, 3], [2, 4]]> : tensor<2x2xi32>
// CHECK-DAG:     arith.constant {{.*}} dense<{{\[}}[1, 2], [3, 4]]> : tensor<2x2xi32>
// CHECK-NOT:     arith.constant
func.func @both_ways(%x: tensor<2x4xi32>, %i: tensor<2x4xi32>) -> (tensor<2x4xi32>, tensor<2x4xi32>) {
  %w = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  %v = arith.constant dense<[[1, 3], [2, 4]]> : tensor<2x2xi32>
  %0 = linalg.matmul ins(%w, %x : tensor<2x2xi32>, tensor<2x4xi32>) outs(%i : tensor<2x4xi32>) -> tensor<2x4xi32>
  %1 = linalg.matmul ins(%v, %x : tensor<2x2xi32>, tensor<2x4xi32>) outs(%i : tensor<2x4xi32>) -> tensor<2x4xi32>
  return %0, %1 : tensor<2x4xi32>, tensor<2x4xi32>
}

// -----

// What else reads a weight keeps it: a refused contraction, a gather.

// CHECK-LABEL: func.func @other_readers(
// CHECK-DAG:     %[[W:.*]] = arith.constant dense<{{.*}}> : tensor<2x3xf32>
// CHECK-DAG:     %[[T:.*]] = arith.constant {qtranspose.derived = {{.*}}} dense<{{.*}}> : tensor<3x2xf32>
// CHECK:         linalg.matmul ins(%{{.*}}, %[[T]] :
// CHECK:         linalg.generic {{.*}} ins(%[[W]], %{{.*}} : tensor<2x3xf32>, tensor<3x4xf32>)
// CHECK:         tensor.extract %[[W]]
#w = affine_map<(m, n, k) -> (m, k)>
#a = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 27
func.func @other_readers(%x: tensor<3x4xf32>, %i: tensor<2x4xf32>, %row: index) -> (tensor<2x4xf32>, tensor<2x4xf32>, f32) {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %0 = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x4xf32>) outs(%i : tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = linalg.generic {indexing_maps = [#w, #a, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w, %x : tensor<2x3xf32>, tensor<3x4xf32>) outs(%i : tensor<2x4xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %p = arith.mulf %l, %r : f32
    %s = arith.maximumf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x4xf32>
  %2 = tensor.extract %w[%row, %row] : tensor<2x3xf32>
  return %0, %1, %2 : tensor<2x4xf32>, tensor<2x4xf32>, f32
}

// -----

// Dominance: the constant is computed where both branches see it, the dequantization once before the loop.

// CHECK-LABEL: func.func @regions(
// CHECK:         %[[T:.*]] = arith.constant {qtranspose.derived = {{.*}}} dense<{{.*}}> : tensor<3x2xi8>
// CHECK-NOT:     qtranspose.derived
// CHECK:         %[[W:.*]] = linalg.generic {{.*}} ins(%[[T]] : tensor<3x2xi8>)
// CHECK:         scf.for
// CHECK:           scf.if
// CHECK:             linalg.matmul ins(%{{.*}}, %[[W]] :
// CHECK:           else
// CHECK:             linalg.matmul ins(%{{.*}}, %[[W]] :
// PITFALL 28
func.func @regions(%x: tensor<3x4xf32>, %i: tensor<2x4xf32>, %c: i1, %n: index) -> tensor<2x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %q = arith.constant dense<[[1, 2, 0], [-1, 0, 3]]> : tensor<2x3xi8>
  %w = arith.sitofp %q : tensor<2x3xi8> to tensor<2x3xf32>
  %r = scf.for %k = %c0 to %n step %c1 iter_args(%acc = %i) -> tensor<2x4xf32> {
    %s = scf.if %c -> tensor<2x4xf32> {
      %0 = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x4xf32>) outs(%acc : tensor<2x4xf32>) -> tensor<2x4xf32>
      scf.yield %0 : tensor<2x4xf32>
    } else {
      %1 = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x4xf32>) outs(%i : tensor<2x4xf32>) -> tensor<2x4xf32>
      scf.yield %1 : tensor<2x4xf32>
    }
    scf.yield %s : tensor<2x4xf32>
  }
  return %r : tensor<2x4xf32>
}

// -----

// The provenance of a constant that is derived from a derived one is that of the first.

// CHECK-LABEL: func.func @twice(
// CHECK:         arith.constant {qtranspose.derived = {map = affine_map<(d0, d1) -> (d0, d1)>, source = "original", source_type = tensor<3x2xf32>}}
func.func @twice(%x: tensor<3x4xf32>, %i: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = arith.constant {qtranspose.derived = {map = affine_map<(d0, d1) -> (d1, d0)>, source = "original", source_type = tensor<3x2xf32>}}
      dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x4xf32>) outs(%i : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// A constant with an attribute that nothing could carry stays as it is, and is transposed by the program.

// CHECK-LABEL: func.func @attribute(
// CHECK:         %[[W:.*]] = arith.constant {my.note} dense<
// CHECK:         linalg.transpose ins(%[[W]] :
func.func @attribute(%x: tensor<3x4xf32>, %i: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = arith.constant {my.note} dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x4xf32>) outs(%i : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// What a size is asked of goes; the size comes from elsewhere.

// CHECK-LABEL: func.func @sizes(
// CHECK:         linalg.matmul
// CHECK:         %[[B:.*]] = linalg.generic
// CHECK:         linalg.transpose ins(%[[B]] :
// CHECK-NOT:     linalg.matmul
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @sizes(%x: tensor<3x?xf32>, %i: tensor<2x?xf32>, %bias: tensor<2xf32>) -> (tensor<2x?xf32>, index) {
  %c1 = arith.constant 1 : index
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x?xf32>) outs(%i : tensor<2x?xf32>) -> tensor<2x?xf32>
  %d = tensor.dim %y, %c1 : tensor<2x?xf32>
  %e = tensor.empty(%d) : tensor<2x?xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%y, %bias : tensor<2x?xf32>, tensor<2xf32>) outs(%e : tensor<2x?xf32>) {
  ^bb0(%l: f32, %b: f32, %o: f32):
    %s = arith.addf %l, %b : f32
    linalg.yield %s : f32
  } -> tensor<2x?xf32>
  return %r, %d : tensor<2x?xf32>, index
}
