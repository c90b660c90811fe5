// Weights move from the left of a contraction to the right.

// RUN: qtranspose-opt %s --split-input-file --qtranspose-static-lhs-to-rhs --mlir-print-local-scope | FileCheck %s
// Running twice equals running once.
// RUN: qtranspose-opt %s --split-input-file --qtranspose-static-lhs-to-rhs -o %t.once
// RUN: qtranspose-opt %t.once --split-input-file --qtranspose-static-lhs-to-rhs -o %t.twice
// RUN: diff %t.once %t.twice

// CHECK-LABEL: func.func @example(
// CHECK-SAME:    %[[A:.*]]: tensor<3x2xf32>
// CHECK:         %[[W:.*]] = arith.constant {qtranspose.derived = {map = affine_map<(d0, d1) -> (d1, d0)>, source_type = tensor<2x3xf32>}}
// CHECK-SAME{LITERAL}: dense<[[1.000000e+00, -1.000000e+00], [2.000000e+00, 0.000000e+00], [0.000000e+00, 3.000000e+00]]>
// CHECK:         %[[AT:.*]] = linalg.transpose ins(%[[A]] : tensor<3x2xf32>) {{.*}} permutation = [1, 0]
// CHECK:         %[[YT:.*]] = linalg.matmul ins(%[[AT]], %[[W]] : tensor<2x3xf32>, tensor<3x2xf32>)
// CHECK:         %[[Y:.*]] = linalg.transpose ins(%[[YT]] : tensor<2x2xf32>) {{.*}} permutation = [1, 0]
// CHECK:         return %[[Y]]
func.func @example(%a: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x2xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = linalg.matmul ins(%w, %a : tensor<2x3xf32>, tensor<3x2xf32>) outs(%f : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// No transposes: a vector has none.

// CHECK-LABEL: func.func @matvec(
// CHECK-SAME:    %[[X:.*]]: tensor<3xf32>, %[[INIT:.*]]: tensor<2xf32>
// CHECK-NOT:     linalg.transpose
// CHECK:         linalg.vecmat ins(%[[X]], %{{.*}} : tensor<3xf32>, tensor<3x2xf32>) outs(%[[INIT]] :
func.func @matvec(%x: tensor<3xf32>, %init: tensor<2xf32>) -> tensor<2xf32> {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y = linalg.matvec ins(%w, %x : tensor<2x3xf32>, tensor<3xf32>) outs(%init : tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @vecmat(
// CHECK-SAME:    %[[A:.*]]: tensor<3x2xf32>
// CHECK:         %[[W:.*]] = arith.constant dense<[1.000000e+00, 2.000000e+00, 0.000000e+00]> : tensor<3xf32>
// CHECK:         %[[AT:.*]] = linalg.transpose ins(%[[A]] :
// CHECK:         %[[Y:.*]] = linalg.matvec ins(%[[AT]], %[[W]] : tensor<2x3xf32>, tensor<3xf32>)
// CHECK-NEXT:    return %[[Y]]
func.func @vecmat(%a: tensor<3x2xf32>, %init: tensor<2xf32>) -> tensor<2xf32> {
  %w = arith.constant dense<[1., 2., 0.]> : tensor<3xf32>
  %y = linalg.vecmat ins(%w, %a : tensor<3xf32>, tensor<3x2xf32>) outs(%init : tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @dot(
// CHECK-SAME:    %[[A:.*]]: tensor<3xf32>
// CHECK:         linalg.dot ins(%[[A]], %{{.*}} : tensor<3xf32>, tensor<3xf32>)
func.func @dot(%a: tensor<3xf32>, %init: tensor<f32>) -> tensor<f32> {
  %w = arith.constant dense<[1., 2., 0.]> : tensor<3xf32>
  %y = linalg.dot ins(%w, %a : tensor<3xf32>, tensor<3xf32>) outs(%init : tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

// The accumulator is transposed with its meaning: a bias along rows is one along columns.

// CHECK-LABEL: func.func @init_bias(
// CHECK-SAME:    %{{.*}}: tensor<3x4xf32>, %[[B:.*]]: tensor<2xf32>
// CHECK:         %[[INIT:.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>]
// CHECK-SAME:      ins(%[[B]] : tensor<2xf32>) outs(%{{.*}} : tensor<4x2xf32>)
// CHECK:         linalg.matmul {{.*}} outs(%[[INIT]] : tensor<4x2xf32>)
#col = affine_map<(d0, d1) -> (d0)>
#id = affine_map<(d0, d1) -> (d0, d1)>
// PITFALL 17
func.func @init_bias(%a: tensor<3x4xf32>, %b: tensor<2xf32>) -> tensor<2x4xf32> {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %e = tensor.empty() : tensor<2x4xf32>
  %i = linalg.broadcast ins(%b : tensor<2xf32>) outs(%e : tensor<2x4xf32>) dimensions = [1]
  %y = linalg.matmul ins(%w, %a : tensor<2x3xf32>, tensor<3x4xf32>) outs(%i : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: func.func @init_runtime(
// CHECK-SAME:    %{{.*}}: tensor<3x4xf32>, %[[I:.*]]: tensor<2x4xf32>
// CHECK:         %[[IT:.*]] = linalg.transpose ins(%[[I]] :
// CHECK:         linalg.matmul {{.*}} outs(%[[IT]] : tensor<4x2xf32>)
// PITFALL 17
func.func @init_runtime(%a: tensor<3x4xf32>, %i: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %a : tensor<2x3xf32>, tensor<3x4xf32>) outs(%i : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// Two layers: no transpose between them.

// CHECK-LABEL: func.func @chain(
// CHECK-SAME:    %[[A:.*]]: tensor<3x4xf32>, %[[B:.*]]: tensor<2x1xf32>
// CHECK:         linalg.transpose ins(%[[A]] :
// CHECK:         %[[H:.*]] = linalg.matmul
// CHECK-NOT:     linalg.transpose
// CHECK:         %[[R:.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, 0)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>]
// CHECK-SAME:      ins(%[[B]], %[[H]] : tensor<2x1xf32>, tensor<4x2xf32>)
// CHECK-NOT:     linalg.transpose
// CHECK:         %[[Y:.*]] = linalg.matmul ins(%[[R]], %{{.*}} : tensor<4x2xf32>, tensor<2x5xf32>)
// CHECK:         linalg.transpose ins(%[[Y]] :
#id = affine_map<(d0, d1) -> (d0, d1)>
#col = affine_map<(d0, d1) -> (d0, 0)>
func.func @chain(%a: tensor<3x4xf32>, %b: tensor<2x1xf32>) -> tensor<5x4xf32> {
  %w0 = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %w1 = arith.constant dense<[[1., 2.], [0., -1.], [0., 3.], [5., 6.], [7., 8.]]> : tensor<5x2xf32>
  %z = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<2x4xf32>
  %f0 = linalg.fill ins(%z : f32) outs(%e0 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %0 = linalg.matmul ins(%w0, %a : tensor<2x3xf32>, tensor<3x4xf32>) outs(%f0 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = linalg.generic {indexing_maps = [#col, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%b, %0 : tensor<2x1xf32>, tensor<2x4xf32>) outs(%e0 : tensor<2x4xf32>) {
  ^bb0(%in: f32, %v: f32, %out: f32):
    %s = arith.addf %in, %v : f32
    %m = arith.maximumf %s, %z : f32
    linalg.yield %m : f32
  } -> tensor<2x4xf32>
  %e1 = tensor.empty() : tensor<5x4xf32>
  %f1 = linalg.fill ins(%z : f32) outs(%e1 : tensor<5x4xf32>) -> tensor<5x4xf32>
  %2 = linalg.matmul ins(%w1, %1 : tensor<5x2xf32>, tensor<2x4xf32>) outs(%f1 : tensor<5x4xf32>) -> tensor<5x4xf32>
  return %2 : tensor<5x4xf32>
}

// -----

// Two matmuls share one transposed weight; the same bytes as 3x2 are another constant.

// CHECK-LABEL: func.func @shared(
// CHECK-DAG:     %[[W:.*]] = arith.constant {qtranspose.derived = {{.*}}source_type = tensor<2x3xf32>}} {{.*}} : tensor<3x2xf32>
// CHECK-DAG:     %[[V:.*]] = arith.constant {qtranspose.derived = {{.*}}source_type = tensor<3x2xf32>}} {{.*}} : tensor<2x3xf32>
// CHECK-NOT:     arith.constant
// CHECK:         linalg.matmul ins(%{{.*}}, %[[W]] : tensor<4x3xf32>, tensor<3x2xf32>)
// CHECK:         linalg.matmul ins(%{{.*}}, %[[W]] : tensor<5x3xf32>, tensor<3x2xf32>)
// CHECK:         linalg.matmul ins(%{{.*}}, %[[V]] : tensor<3x2xf32>, tensor<2x3xf32>)
// PITFALL 27
func.func @shared(%a: tensor<3x4xf32>, %b: tensor<3x5xf32>, %c: tensor<2x3xf32>, %i: tensor<2x4xf32>, %j: tensor<2x5xf32>, %k: tensor<3x3xf32>)
    -> (tensor<2x4xf32>, tensor<2x5xf32>, tensor<3x3xf32>) {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %v = arith.constant dense<[[1., 2.], [0., -1.], [0., 3.]]> : tensor<3x2xf32>
  %0 = linalg.matmul ins(%w, %a : tensor<2x3xf32>, tensor<3x4xf32>) outs(%i : tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = linalg.matmul ins(%w, %b : tensor<2x3xf32>, tensor<3x5xf32>) outs(%j : tensor<2x5xf32>) -> tensor<2x5xf32>
  %2 = linalg.matmul ins(%v, %c : tensor<3x2xf32>, tensor<2x3xf32>) outs(%k : tensor<3x3xf32>) -> tensor<3x3xf32>
  return %0, %1, %2 : tensor<2x4xf32>, tensor<2x5xf32>, tensor<3x3xf32>
}

// -----

// Mixed signedness has no named op.

// CHECK-LABEL: func.func @mixed(
// CHECK-SAME:    %[[X:.*]]: tensor<4x3xi8>
// CHECK-NOT:     linalg.transpose
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>]
// CHECK-SAME:      ins(%[[X]], %{{.*}} : tensor<4x3xi8>, tensor<3x2xi8>)
// CHECK-NEXT:    ^bb0(%[[R:.*]]: i8, %[[L:.*]]: i8, %{{.*}}: i32):
// CHECK-NEXT:      arith.extsi %[[L]]
// CHECK-NEXT:      arith.extui %[[R]]
#w = affine_map<(m, n, k) -> (m, k)>
#a = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (n, m)>
// PITFALL 2, 22
func.func @mixed(%x: tensor<4x3xi8>, %init: tensor<4x2xi32>) -> tensor<4x2xi32> {
  %w = arith.constant dense<[[1, 2, 0], [-1, 0, 3]]> : tensor<2x3xi8>
  %y = linalg.generic {indexing_maps = [#w, #a, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w, %x : tensor<2x3xi8>, tensor<4x3xi8>) outs(%init : tensor<4x2xi32>) {
  ^bb0(%l: i8, %r: i8, %acc: i32):
    %lx = arith.extsi %l : i8 to i32
    %rx = arith.extui %r : i8 to i32
    %p = arith.muli %lx, %rx : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  } -> tensor<4x2xi32>
  return %y : tensor<4x2xi32>
}

// -----

// CHECK-LABEL: func.func @unsigned(
// CHECK:         linalg.matmul {cast = #linalg.type_fn<cast_unsigned>} ins(%{{.*}}, %{{.*}} : tensor<4x3xi8>, tensor<3x2xi8>)
// PITFALL 2
func.func @unsigned(%x: tensor<3x4xi8>, %init: tensor<2x4xi32>) -> tensor<2x4xi32> {
  %w = arith.constant dense<[[1, 2, 0], [-1, 0, 3]]> : tensor<2x3xi8>
  %y = linalg.matmul {cast = #linalg.type_fn<cast_unsigned>} ins(%w, %x : tensor<2x3xi8>, tensor<3x4xi8>) outs(%init : tensor<2x4xi32>) -> tensor<2x4xi32>
  return %y : tensor<2x4xi32>
}

// -----

// CHECK-LABEL: func.func @zero_points(
// CHECK-DAG:     %[[ZW:.*]] = arith.constant 3 : i32
// CHECK-DAG:     %[[ZX:.*]] = arith.constant -7 : i32
// CHECK:         linalg.quantized_matmul ins(%{{.*}}, %{{.*}}, %[[ZX]], %[[ZW]] : tensor<4x3xi8>, tensor<3x2xi8>, i32, i32)
func.func @zero_points(%x: tensor<3x4xi8>, %init: tensor<2x4xi32>) -> tensor<2x4xi32> {
  %w = arith.constant dense<[[1, 2, 0], [-1, 0, 3]]> : tensor<2x3xi8>
  %zw = arith.constant 3 : i32
  %zx = arith.constant -7 : i32
  %y = linalg.quantized_matmul ins(%w, %x, %zw, %zx : tensor<2x3xi8>, tensor<3x4xi8>, i32, i32) outs(%init : tensor<2x4xi32>) -> tensor<2x4xi32>
  return %y : tensor<2x4xi32>
}

// -----

// A marked argument is transposed by the program.

// CHECK-LABEL: func.func @marked(
// CHECK-SAME:    %[[W:.*]]: tensor<2x3xf32> {qtranspose.constant}
// CHECK:         %[[WT:.*]] = linalg.transpose ins(%[[W]] : tensor<2x3xf32>)
// CHECK:         linalg.matmul ins(%{{.*}}, %[[WT]] : tensor<4x3xf32>, tensor<3x2xf32>)
func.func @marked(%w: tensor<2x3xf32> {qtranspose.constant}, %x: tensor<3x4xf32>, %init: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x4xf32>) outs(%init : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// Existing transposition flags are composed.

// CHECK-LABEL: func.func @flags(
// CHECK-SAME:    %[[X:.*]]: tensor<4x3xf32>
// CHECK:         %[[W:.*]] = arith.constant dense<{{.*}}> : tensor<3x2xf32>
// CHECK-NOT:     linalg.transpose ins(%[[X]]
// CHECK:         linalg.matmul ins(%[[X]], %[[W]] : tensor<4x3xf32>, tensor<3x2xf32>)
#w = affine_map<(m, n, k) -> (k, m)>
#a = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 14
func.func @flags(%x: tensor<4x3xf32>, %init: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = arith.constant dense<[[1., 2.], [0., -1.], [0., 3.]]> : tensor<3x2xf32>
  %y = linalg.matmul indexing_maps = [#w, #a, #y] ins(%w, %x : tensor<3x2xf32>, tensor<4x3xf32>) outs(%init : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: func.func @splat(
// CHECK:         %[[W:.*]] = arith.constant dense<5.000000e-01> : tensor<3x2xf32>
// CHECK:         linalg.matmul ins(%{{.*}}, %[[W]] : tensor<4x3xf32>, tensor<3x2xf32>)
func.func @splat(%x: tensor<3x4xf32>, %init: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = arith.constant dense<0.5> : tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x4xf32>) outs(%init : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// CHECK-NOT:     ml_program.global
// CHECK-LABEL: func.func @global(
// CHECK:         %[[W:.*]] = arith.constant {qtranspose.derived = {map = affine_map<(d0, d1) -> (d1, d0)>, source = "w", source_type = tensor<2x3xf32>}}
// CHECK:         linalg.matmul ins(%{{.*}}, %[[W]] : tensor<4x3xf32>, tensor<3x2xf32>)
ml_program.global private @w(dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>) : tensor<2x3xf32>
func.func @global(%x: tensor<3x4xf32>, %init: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = ml_program.global_load_const @w : tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x4xf32>) outs(%init : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// The rows are of another operand than the one that changes sides with the
// weight: they come last.

// CHECK-LABEL: func.func @row_of_other_operand(
// CHECK-SAME:      %[[W:.*]]: tensor<3x2xi8>, %[[S:.*]]: tensor<2xf64>
// CHECK:         linalg.generic
// CHECK-SAME:      tensor<2x3xi8>, tensor<4x2xf64>) outs(%{{.*}} : tensor<4x3xf64>)
func.func @row_of_other_operand(%w: tensor<3x2xi8>, %s: tensor<2xf64>) -> tensor<3x4xf64> {
  %x = arith.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf64>
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<3x4xf64>
  %i = linalg.fill ins(%zero : f64) outs(%e : tensor<3x4xf64>) -> tensor<3x4xf64>
  %y = linalg.generic {indexing_maps = [affine_map<(n, k, m) -> (m, k)>, affine_map<(n, k, m) -> (n, k)>,
      affine_map<(n, k, m) -> (k)>, affine_map<(n, k, m) -> (m, n)>],
      iterator_types = ["parallel", "reduction", "parallel"]}
      ins(%w, %x, %s : tensor<3x2xi8>, tensor<4x2xf64>, tensor<2xf64>) outs(%i : tensor<3x4xf64>) {
  ^bb0(%a: i8, %b: f64, %c: f64, %acc: f64):
    %af = arith.sitofp %a : i8 to f64
    %bs = arith.mulf %b, %c : f64
    %p = arith.mulf %af, %bs : f64
    %r = arith.addf %acc, %p : f64
    linalg.yield %r : f64
  } -> tensor<3x4xf64>
  return %y : tensor<3x4xf64>
}
