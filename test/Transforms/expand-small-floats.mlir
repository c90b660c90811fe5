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

// Back: the exponent moves, half a unit is added, ties go to even; what is below the smallest normal number is rounded by
// an addition; numbers that are too big become NaN, for this format has no infinity.

// CHECK-LABEL: func.func @narrow(
// CHECK-SAME:      %[[A:.*]]: f32) -> f8E4M3FN
// CHECK:         %[[BITS:.*]] = arith.bitcast %[[A]] : f32 to i32
// CHECK:         arith.subi
// CHECK:         %[[SUM:.*]] = arith.addf
// CHECK:         %[[NAN:.*]] = arith.constant 127 : i32
// CHECK:         arith.select %{{.*}}, %[[NAN]]
// CHECK:         %[[CODE:.*]] = arith.trunci %{{.*}} : i32 to i8
// CHECK:         %[[R:.*]] = arith.bitcast %[[CODE]] : i8 to f8E4M3FN
// CHECK:         return %[[R]]
func.func @narrow(%a: f32) -> f8E4M3FN {
  %r = arith.truncf %a : f32 to f8E4M3FN
  return %r : f8E4M3FN
}

// Constants are their bits; comparisons are those of f32; vectors are converted as a whole.

// CHECK-LABEL: func.func @others(
// CHECK:         arith.constant -8 : i8
// CHECK:         arith.cmpf olt, %{{.*}}, %{{.*}} : f32
// CHECK:         arith.extui %{{.*}} : vector<4xi16> to vector<4xi32>
// CHECK:         arith.bitcast %{{.*}} : vector<4xi32> to vector<4xf32>
func.func @others(%a: f8E5M2, %v: vector<4xbf16>) -> (i1, vector<4xf32>) {
  %c = arith.constant -3.2768e+04 : f8E5M2
  %p = arith.cmpf olt, %a, %c : f8E5M2
  %w = arith.extf %v : vector<4xbf16> to vector<4xf32>
  return %p, %w : i1, vector<4xf32>
}

// An integer that f64 does not hold is rounded to odd first, so that the second rounding is right.

// CHECK-LABEL: func.func @wide_integer(
// CHECK-SAME:      %[[A:.*]]: i64) -> bf16
// CHECK:         %[[LOST:.*]] = arith.xori %[[A]],
// CHECK:         arith.cmpi ne, %[[LOST]],
// CHECK:         %[[ODD:.*]] = arith.ori
// CHECK:         %[[X:.*]] = arith.select %{{.*}}, %[[A]], %[[ODD]] : i64
// CHECK:         arith.sitofp %[[X]] : i64 to f64
func.func @wide_integer(%a: i64) -> bf16 {
  %r = arith.sitofp %a : i64 to bf16
  return %r : bf16
}
