// torch-mlir casts two dynamic dims to `?x1` and so drops rows when there are more: a wrong program, which stays as wrong
// as it is. Only its weight moves.

// RUN: qtranspose-opt %s --pass-pipeline='builtin.module(qtranspose-default{weights=keep})' | FileCheck %s
// RUN: qtranspose-opt %s --pass-pipeline='builtin.module(qtranspose-default{weights=right})' | FileCheck %s

// CHECK-LABEL: func.func @two_dynamic_dims(
// CHECK-SAME:      %[[X:.*]]: tensor<?x?x6xf32>, %[[Q:.*]]: tensor<5x6xi8>, %[[S:.*]]: tensor<5x1xf32>)
// CHECK-NOT:     linalg.transpose
// CHECK:         %[[CAST:.*]] = tensor.cast %[[X]] : tensor<?x?x6xf32> to tensor<?x1x6xf32>
// CHECK:         %[[ROWS:.*]] = tensor.collapse_shape %[[CAST]] {{\[\[}}0], [1, 2]] : tensor<?x1x6xf32> into tensor<?x6xf32>
// CHECK:         %[[DIM:.*]] = tensor.dim %[[X]], %{{.*}} : tensor<?x?x6xf32>
// CHECK:         %[[EMPTY:.*]] = tensor.empty(%[[DIM]]) : tensor<?x5xf32>
// CHECK:         linalg.fill ins(%{{.*}} : f32) outs(%[[EMPTY]] : tensor<?x5xf32>)
// CHECK-NOT:     linalg.transpose
// CHECK:         linalg.generic {{.*}} ins(%[[ROWS]], %{{.*}} : tensor<?x6xf32>, tensor<5x6xf32>)
// CHECK-NOT:     linalg.transpose

// PITFALL 32
func.func @two_dynamic_dims(%x: tensor<?x?x6xf32>, %q: tensor<5x6xi8>, %s: tensor<5x1xf32>) -> tensor<?x5xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %cast = tensor.cast %x : tensor<?x?x6xf32> to tensor<?x1x6xf32>
  %rows = tensor.collapse_shape %cast [[0], [1, 2]] : tensor<?x1x6xf32> into tensor<?x6xf32>
  %e = tensor.empty() : tensor<5x6xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>,
                                        affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<5x6xi8>, tensor<5x1xf32>) outs(%e : tensor<5x6xf32>) {
  ^bb0(%in: i8, %scale: f32, %out: f32):
    %f = arith.sitofp %in : i8 to f32
    %m = arith.mulf %f, %scale : f32
    linalg.yield %m : f32
  } -> tensor<5x6xf32>
  %t = tensor.empty() : tensor<6x5xf32>
  %wt = linalg.transpose ins(%w : tensor<5x6xf32>) outs(%t : tensor<6x5xf32>) permutation = [1, 0]
  %d = tensor.dim %x, %c0 : tensor<?x?x6xf32>
  %i = tensor.empty(%d) : tensor<?x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%i : tensor<?x5xf32>) -> tensor<?x5xf32>
  %y = linalg.matmul ins(%rows, %wt : tensor<?x6xf32>, tensor<6x5xf32>) outs(%f : tensor<?x5xf32>) -> tensor<?x5xf32>
  return %y : tensor<?x5xf32>
}
