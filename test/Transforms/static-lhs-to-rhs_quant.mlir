// Quantized types: the stored tensor is transposed, and the axes of the type move along.

// RUN: qtranspose-opt %s --split-input-file --qtranspose-static-lhs-to-rhs --mlir-print-local-scope | FileCheck %s

// CHECK-LABEL: func.func @per_axis(
// CHECK:         %[[W:.*]] = arith.constant {qtranspose.derived = {{.*}}} dense<{{\[}}[1, -1], [2, 0], [0, 3]]> : tensor<3x2xi8>
// CHECK:         %[[Q:.*]] = quant.scast %[[W]] : tensor<3x2xi8> to tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01:1,2.500000e-01:-2}>>
// CHECK:         %[[D:.*]] = quant.dcast %[[Q]] : tensor<3x2x!quant.uniform<i8:f32:1, {5.000000e-01:1,2.500000e-01:-2}>> to tensor<3x2xf32>
// CHECK:         linalg.matmul ins(%{{.*}}, %[[D]] : tensor<2x3xf32>, tensor<3x2xf32>)
// PITFALL 3
func.func @per_axis(%x: tensor<3x2xf32>, %i: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %c = arith.constant dense<[[1, 2, 0], [-1, 0, 3]]> : tensor<2x3xi8>
  %q = quant.scast %c : tensor<2x3xi8> to tensor<2x3x!quant.uniform<i8:f32:0, {0.5:1, 0.25:-2}>>
  %w = quant.dcast %q : tensor<2x3x!quant.uniform<i8:f32:0, {0.5:1, 0.25:-2}>> to tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x2xf32>) outs(%i : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// Scales along the summed dim stay with it. An argument is transposed as what it stores.

// CHECK-LABEL: func.func @summed_axis(
// CHECK-SAME:    %[[A:.*]]: tensor<2x3x!quant.uniform
// CHECK:         %[[S:.*]] = quant.scast %[[A]] : {{.*}} to tensor<2x3xi8>
// CHECK:         %[[T:.*]] = linalg.transpose ins(%[[S]] : tensor<2x3xi8>)
// CHECK:         quant.scast %[[T]] : tensor<3x2xi8> to tensor<3x2x!quant.uniform<u8:f32:0, {5.000000e-01:200,2.500000e-01,1.000000e+00:3}>>
func.func @summed_axis(%q: tensor<2x3x!quant.uniform<u8:f32:1, {0.5:200, 0.25, 1.0:3}>>, %x: tensor<3x2xf32>, %i: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = quant.dcast %q : tensor<2x3x!quant.uniform<u8:f32:1, {0.5:200, 0.25, 1.0:3}>> to tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x2xf32>) outs(%i : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// Blocks of both dims, with distinct parameters.

// CHECK-LABEL: func.func @sub_channel(
// CHECK:         quant.scast %{{.*}} : tensor<4x2xi8> to tensor<4x2x!quant.uniform<i8:f32:{1:1, 0:2}, {{[{][{]}}5.000000e-01:1, 1.000000e+00}, {2.500000e-01:2, 2.000000e+00:3}}>>
func.func @sub_channel(%x: tensor<4x5xf32>, %i: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %c = arith.constant dense<[[1, 2, 0, 4], [-1, 0, 3, 5]]> : tensor<2x4xi8>
  %q = quant.scast %c : tensor<2x4xi8> to tensor<2x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{0.5:1, 0.25:2}, {1.0, 2.0:3}}>>
  %w = quant.dcast %q : tensor<2x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{0.5:1, 0.25:2}, {1.0, 2.0:3}}>> to tensor<2x4xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x4xf32>, tensor<4x5xf32>) outs(%i : tensor<2x5xf32>) -> tensor<2x5xf32>
  return %y : tensor<2x5xf32>
}

// -----

// The axis is one of two dims that become one: the type cannot say that, arithmetic can.

// CHECK-LABEL: func.func @merged_axis(
// CHECK-NOT:     quant.dcast
// CHECK:         arith.sitofp
// CHECK:         linalg.matmul ins(%{{.*}}, %{{.*}} : tensor<5x3xf32>, tensor<3x4xf32>)
#w = affine_map<(m, h, n, k) -> (m, h, k)>
#a = affine_map<(m, h, n, k) -> (k, n)>
#y = affine_map<(m, h, n, k) -> (m, h, n)>
func.func @merged_axis(%x: tensor<3x5xf32>, %i: tensor<2x2x5xf32>) -> tensor<2x2x5xf32> {
  %c = arith.constant dense<[[[1, 2, 0], [-1, 0, 3]], [[4, 5, 6], [7, 8, 9]]]> : tensor<2x2x3xi8>
  %q = quant.scast %c : tensor<2x2x3xi8> to tensor<2x2x3x!quant.uniform<i8:f32:0, {0.5:1, 0.25:-2}>>
  %w = quant.dcast %q : tensor<2x2x3x!quant.uniform<i8:f32:0, {0.5:1, 0.25:-2}>> to tensor<2x2x3xf32>
  %y = linalg.contract indexing_maps = [#w, #a, #y] ins(%w, %x : tensor<2x2x3xf32>, tensor<3x5xf32>) outs(%i : tensor<2x2x5xf32>) -> tensor<2x2x5xf32>
  return %y : tensor<2x2x5xf32>
}
