// RUN: qtranspose-opt %s --qtranspose-expand-small-floats | FileCheck %s

// The bits of the small float, as an f32 scaled into place; NaN apart.

// CHECK-LABEL: func.func @widen(
// CHECK-SAME:      %[[A:.*]]: f8E4M3FN
// CHECK:         %[[BITS:.*]] = arith.bitcast %[[A]] : f8E4M3FN to i8
// CHECK:         arith.extui %[[BITS]] : i8 to i32
// CHECK:         %[[SIGNED:.*]] = arith.ori
// CHECK:         %[[R:.*]] = arith.bitcast %[[SIGNED]] : i32 to f32
// CHECK:         return %[[R]]
func.func @widen(%a: f8E4M3FN) -> f32 {
  %r = arith.extf %a : f8E4M3FN to f32
  return %r : f32
}

// bf16 arithmetic is f32 arithmetic, rounded once, to nearest even.

// CHECK-LABEL: func.func @multiply(
// CHECK:         %[[X:.*]] = arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK:         arith.bitcast %[[X]] : f32 to i32
// CHECK:         arith.constant 32767 : i32
// CHECK:         arith.bitcast %{{.*}} : i16 to bf16
func.func @multiply(%a: bf16, %b: bf16) -> bf16 {
  %r = arith.mulf %a, %b : bf16
  return %r : bf16
}

// Hardware multiplies f16; its math functions go through f32.

// CHECK-LABEL: func.func @half(
// CHECK:         %[[X:.*]] = arith.mulf %{{.*}}, %{{.*}} : f16
// CHECK:         %[[W:.*]] = arith.extf %[[X]] : f16 to f32
// CHECK:         %[[E:.*]] = math.exp %[[W]] : f32
// CHECK:         arith.truncf %[[E]] : f32 to f16
func.func @half(%a: f16, %b: f16) -> f16 {
  %p = arith.mulf %a, %b : f16
  %r = math.exp %p : f16
  return %r : f16
}
