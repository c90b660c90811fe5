// RUN: qtranspose-opt %s --split-input-file --verify-diagnostics --qtranspose-lower-asserts=handler=failed | FileCheck %s

// Without assertions there is no handler and no list of messages.

// CHECK:      module {
// CHECK-NEXT:   func.func @none
func.func @none() {
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
