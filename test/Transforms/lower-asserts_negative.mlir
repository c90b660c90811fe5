// What does not concern the pass stays as it is, dead ops and duplicate constants included; what cannot be lowered has
// one diagnostic.

// RUN: sed '/^\/\/ -----/,$d' %s > %t.mlir
// RUN: qtranspose-opt %t.mlir -o %t.before
// RUN: qtranspose-opt %t.mlir --qtranspose-lower-asserts=handler=failed -o %t.after
// RUN: diff %t.before %t.after
// RUN: qtranspose-opt %s --split-input-file --verify-diagnostics --qtranspose-lower-asserts=handler=failed > /dev/null

// Without assertions there is no handler and no list of messages.

func.func @none() {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  return
}

// -----

func.func @nested(%ok: i1) {
  scf.if %ok {
    // expected-error @+1 {{must be directly inside a function: lower scf and linalg first}}
    cf.assert %ok, "inside"
  }
  return
}

// -----

func.func @result_without_zero(%ok: i1, %p: !llvm.ptr) -> !llvm.ptr {
  // expected-error @+1 {{a failure has no value to return for '!llvm.ptr'}}
  cf.assert %ok, "pointer"
  return %p : !llvm.ptr
}

// -----

func.func @result_of_unknown_size(%ok: i1, %t: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error @+1 {{a failure has no value to return for 'tensor<?xf32>'}}
  cf.assert %ok, "tensor"
  return %t : tensor<?xf32>
}

// -----

func.func @result_of_unknown_layout(%ok: i1, %m: memref<?xf32, strided<[?]>>) -> memref<?xf32, strided<[?]>> {
  // expected-error @+1 {{a failure has no value to return for 'memref<?xf32, strided<[?]>>'}}
  cf.assert %ok, "buffer"
  return %m : memref<?xf32, strided<[?]>>
}
