// What does not concern the pass stays as it is, dead ops and duplicate constants included; what cannot be lowered has
// one diagnostic.

// RUN: sed '/^\/\/ -----/,$d' %s > %t.mlir
// RUN: qtranspose-opt %t.mlir -o %t.before
// RUN: qtranspose-opt %t.mlir --qtranspose-expand-small-floats -o %t.after
// RUN: diff %t.before %t.after
// RUN: qtranspose-opt %s --split-input-file --verify-diagnostics --qtranspose-expand-small-floats > /dev/null

// Formats that the hardware computes in, and small floats that are only moved.

func.func @native(%a: f32, %b: f32, %c: f64, %h: f16, %p: i1, %s: f8E4M3FN, %t: f8E4M3FN) -> (f32, f16, f8E4M3FN) {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %m = arith.mulf %a, %b : f32
  %e = math.exp %m : f32
  %n = arith.truncf %c : f64 to f32
  %w = arith.extf %h : f16 to f32
  %g = arith.addf %h, %h : f16
  %q = arith.select %p, %s, %t : f8E4M3FN
  return %e, %g, %q : f32, f16, f8E4M3FN
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

// -----

func.func @from_integer(%a: i32) -> f8E8M0FNU {
  // expected-error @+1 {{conversion to 'f8E8M0FNU' is not supported}}
  %r = arith.uitofp %a : i32 to f8E8M0FNU
  return %r : f8E8M0FNU
}
