// RUN: qtranspose-opt %s --split-input-file --qtranspose-linalg-to-loops | FileCheck %s

// Rows of the weight are contiguous along the sum: it is a loop value, loaded
// and stored once per output.

// CHECK-LABEL: func.func @sum_in_register(
// CHECK-SAME:      %[[X:.*]]: memref<64xf32>, %[[W:.*]]: memref<48x64xf32>, %[[Y:.*]]: memref<48xf32>)
// CHECK:         scf.for %[[N:.*]] = %{{.*}} to %{{.*}} step
// CHECK:           %[[INIT:.*]] = memref.load %[[Y]][%[[N]]]
// CHECK:           %[[SUM:.*]] = scf.for %[[K:.*]] = {{.*}} iter_args(%[[ACC:.*]] = %[[INIT]]) -> (f32)
// CHECK-NOT:         memref.store
// CHECK:             %[[XV:.*]] = memref.load %[[X]][%[[K]]]
// CHECK:             %[[WV:.*]] = memref.load %[[W]][%[[N]], %[[K]]]
// CHECK:             %[[P:.*]] = arith.mulf %[[XV]], %[[WV]]
// CHECK:             %[[S:.*]] = arith.addf %[[ACC]], %[[P]]
// CHECK:             scf.yield %[[S]]
// CHECK:           memref.store %[[SUM]], %[[Y]][%[[N]]]
func.func @sum_in_register(%x: memref<64xf32>, %w: memref<48x64xf32>, %y: memref<48xf32>) {
  linalg.generic {
      indexing_maps = [affine_map<(n, k) -> (k)>, affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n)>],
      iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : memref<64xf32>, memref<48x64xf32>) outs(%y : memref<48xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// The right operand and the result are contiguous along n: n is innermost, and
// k stays outside of it, in order.

// CHECK-LABEL: func.func @contiguous_innermost(
// CHECK-SAME:      %[[A:.*]]: memref<4x?xf32>, %[[B:.*]]: memref<?x?xf32>, %[[C:.*]]: memref<4x?xf32>)
// CHECK:         scf.for %[[I:.*]] =
// CHECK-NEXT:      scf.for %[[K:.*]] =
// CHECK-NEXT:        scf.for %[[J:.*]] =
// CHECK-DAG:           memref.load %[[A]][%[[I]], %[[K]]]
// CHECK-DAG:           memref.load %[[B]][%[[K]], %[[J]]]
// CHECK-DAG:           memref.load %[[C]][%[[I]], %[[J]]]
// CHECK:               memref.store %{{.*}}, %[[C]][%[[I]], %[[J]]]
func.func @contiguous_innermost(%a: memref<4x?xf32>, %b: memref<?x?xf32>, %c: memref<4x?xf32>) {
  linalg.matmul ins(%a, %b : memref<4x?xf32>, memref<?x?xf32>) outs(%c : memref<4x?xf32>)
  return
}

// -----

// An output that is not read is not loaded; an index is the loop's.

// CHECK-LABEL: func.func @elementwise(
// CHECK-SAME:      %[[OUT:.*]]: memref<3x5xi64>)
// CHECK:         scf.for %[[I:.*]] =
// CHECK-NEXT:      scf.for %[[J:.*]] =
// CHECK-NOT:         memref.load
// CHECK:             arith.index_cast %[[J]] : index to i64
// CHECK:             memref.store %{{.*}}, %[[OUT]][%[[I]], %[[J]]]
func.func @elementwise(%out: memref<3x5xi64>) {
  linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      outs(%out : memref<3x5xi64>) {
  ^bb0(%o: i64):
    %j = linalg.index 1 : index
    %v = arith.index_cast %j : index to i64
    linalg.yield %v : i64
  }
  return
}

// -----

// Two parallel dims write one element: the order of the op is kept.

// CHECK-LABEL: func.func @not_one_point_per_output(
// CHECK:         scf.for %[[I:.*]] =
// CHECK-NEXT:      scf.for %[[K:.*]] =
// CHECK-NEXT:        scf.for %[[J:.*]] =
// CHECK-NOT:           iter_args
// CHECK:               memref.store %{{.*}}, %{{.*}}[%[[I]]]
func.func @not_one_point_per_output(%in: memref<2x3x4xf32>, %out: memref<2xf32>) {
  linalg.generic {
      indexing_maps = [affine_map<(i, k, j) -> (i, k, j)>, affine_map<(i, k, j) -> (i)>],
      iterator_types = ["parallel", "reduction", "parallel"]}
      ins(%in : memref<2x3x4xf32>) outs(%out : memref<2xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %acc, %a : f32
    linalg.yield %s : f32
  }
  return
}

// -----

// CHECK-LABEL: func.func @copies(
// CHECK-SAME:      %[[A:.*]]: memref<4x8xf32>, %[[B:.*]]: memref<4x8xf32>, %[[V:.*]]: memref<4x8xf32, strided<[16, 2]>>)
// CHECK:         memref.copy %[[A]], %[[B]]
// CHECK-NOT:     memref.copy
// CHECK:         scf.for %[[I:.*]] =
// CHECK:           scf.for %[[J:.*]] =
// CHECK:             %[[E:.*]] = memref.load %[[A]][%[[I]], %[[J]]]
// CHECK:             memref.store %[[E]], %[[V]][%[[I]], %[[J]]]
func.func @copies(%a: memref<4x8xf32>, %b: memref<4x8xf32>, %v: memref<4x8xf32, strided<[16, 2]>>) {
  memref.copy %a, %b : memref<4x8xf32> to memref<4x8xf32>
  memref.copy %a, %v : memref<4x8xf32> to memref<4x8xf32, strided<[16, 2]>>
  return
}
