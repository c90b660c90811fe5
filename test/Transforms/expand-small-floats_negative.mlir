// RUN: qtranspose-opt %s --split-input-file --verify-diagnostics --qtranspose-expand-small-floats | FileCheck %s

// CHECK-LABEL: func.func @f32
// CHECK-NEXT:    arith.mulf
// CHECK-NEXT:    math.exp
// CHECK-NEXT:    return
func.func @f32(%a: f32, %b: f32) -> f32 {
  %p = arith.mulf %a, %b : f32
  %r = math.exp %p : f32
  return %r : f32
}

// -----

func.func @to_exponent(%a: f32) -> f8E8M0FNU {
  // expected-error @+1 {{conversion to 'f8E8M0FNU' is not supported}}
  %r = arith.truncf %a : f32 to f8E8M0FNU
  return %r : f8E8M0FNU
}

// -----

func.func @rounding_mode(%a: f32) -> bf16 {
  // expected-error @+1 {{conversion to 'bf16' only rounds to nearest even}}
  %r = arith.truncf %a toward_zero : f32 to bf16
  return %r : bf16
}
