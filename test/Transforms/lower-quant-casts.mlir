// RUN: qtranspose-opt %s --qtranspose-lower-quant-casts | FileCheck %s --implicit-check-not=quant. --implicit-check-not=floordiv

!layer = !quant.uniform<u8:f32, 0.5:200>
!axis = !quant.uniform<i8:f32:0, {0.5, 0.25:3}>
!block = !quant.uniform<i8:f32:{0:1, 1:2}, {{0.5:3, 0.25}, {0.125, 2.0}}>
!unsigned_block = !quant.uniform<u8:f32:{0:2, 1:4}, {{0.5:255}}>

// An unsigned zero point above 127.

// CHECK-LABEL: func.func @layer(
// CHECK-SAME:      %{{.*}}: tensor<4xi8>
// CHECK-DAG:     %[[S:.*]] = arith.constant 5.000000e-01 : f32
// CHECK-DAG:     %[[Z:.*]] = arith.constant 200 : i32
// CHECK:         ^bb0(%[[Q:.*]]: i8, %{{.*}}: f32):
// CHECK:           %[[W:.*]] = arith.extui %[[Q]] : i8 to i32
// CHECK:           %[[D:.*]] = arith.subi %[[W]], %[[Z]]
// CHECK:           %[[F:.*]] = arith.sitofp %[[D]]
// CHECK:           arith.mulf %[[F]], %[[S]]
// PITFALL 4, 22
func.func @layer(%a: tensor<4xi8>) -> tensor<4xf32> {
  %q = quant.scast %a : tensor<4xi8> to tensor<4x!layer>
  %r = quant.dcast %q : tensor<4x!layer> to tensor<4xf32>
  return %r : tensor<4xf32>
}

// CHECK-LABEL: func.func @axis(
// CHECK-DAG:     arith.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK-DAG:     arith.constant dense<[0, 3]> : tensor<2xi32>
// CHECK:         tensor.dim
// CHECK:         linalg.generic
// CHECK:           arith.extsi
func.func @axis(%a: tensor<2x?xi8>) -> tensor<2x?xf32> {
  %q = quant.scast %a : tensor<2x?xi8> to tensor<2x?x!axis>
  %r = quant.dcast %q : tensor<2x?x!axis> to tensor<2x?xf32>
  return %r : tensor<2x?xf32>
}

// Blocks are dims of their own: every map is a projected permutation.

// CHECK-LABEL: func.func @block(
// CHECK:         %[[B:.*]] = tensor.expand_shape %{{.*}} {{\[\[}}0], [1, 2]] output_shape [2, 2, 2]
// CHECK:         linalg.generic
// CHECK-SAME:      ins(%[[B]],
// CHECK:         tensor.collapse_shape
// PITFALL 4
func.func @block(%a: tensor<2x4xi8>) -> tensor<2x4xf32> {
  %q = quant.scast %a : tensor<2x4xi8> to tensor<2x4x!block>
  %r = quant.dcast %q : tensor<2x4x!block> to tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}

// Round half to even, then clamp.

// CHECK-LABEL: func.func @quantize(
// CHECK:           %[[V:.*]] = arith.divf
// CHECK:           %[[R:.*]] = math.roundeven %[[V]]
// CHECK:           arith.maxnumf %[[R]],
// CHECK:           arith.minnumf
// CHECK:           arith.trunci %{{.*}} : i32 to i8
// PITFALL 5
func.func @quantize(%a: tensor<4xf32>) -> tensor<4xi8> {
  %q = quant.qcast %a : tensor<4xf32> to tensor<4x!layer>
  %r = quant.scast %q : tensor<4x!layer> to tensor<4xi8>
  return %r : tensor<4xi8>
}

// There and back is not nothing.

// CHECK-LABEL: func.func @round_trip(
// CHECK:           math.roundeven
// CHECK:           arith.sitofp
// CHECK:           arith.mulf
// PITFALL 5
func.func @round_trip(%a: tensor<4xf32>) -> tensor<4xf32> {
  %q = quant.qcast %a : tensor<4xf32> to tensor<4x!layer>
  %r = quant.dcast %q : tensor<4x!layer> to tensor<4xf32>
  return %r : tensor<4xf32>
}

// CHECK-LABEL: func.func @scalar(%{{.*}}: i8) -> f32
// CHECK:         arith.extui
// CHECK:         arith.mulf
func.func @scalar(%a: i8) -> f32 {
  %q = quant.scast %a : i8 to !layer
  %r = quant.dcast %q : !layer to f32
  return %r : f32
}

// One block is the whole tensor: nothing to split.

// CHECK-LABEL: func.func @one_block(
// CHECK-NOT:     expand_shape
// CHECK-DAG:     arith.constant 255 : i32
// CHECK:           arith.extui %{{.*}} : i8 to i32
func.func @one_block(%a: tensor<2x4xi8>) -> tensor<2x4xf32> {
  %q = quant.scast %a : tensor<2x4xi8> to tensor<2x4x!unsigned_block>
  %r = quant.dcast %q : tensor<2x4x!unsigned_block> to tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}
