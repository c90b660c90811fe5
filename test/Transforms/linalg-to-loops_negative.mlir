// What does not concern the pass stays as it is, dead ops and duplicate constants included; what cannot be lowered has
// one diagnostic.

// RUN: sed '/^\/\/ -----/,$d' %s > %t.mlir
// RUN: qtranspose-opt %t.mlir -o %t.before
// RUN: qtranspose-opt %t.mlir --qtranspose-linalg-to-loops -o %t.after
// RUN: diff %t.before %t.after
// RUN: qtranspose-opt %s --split-input-file --verify-diagnostics --qtranspose-linalg-to-loops > /dev/null

// Copies of contiguous buffers are one call; loops are loops already.

func.func @contiguous(%a: memref<4x8xf32>, %b: memref<4x8xf32>, %n: index) {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  memref.copy %a, %b : memref<4x8xf32> to memref<4x8xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {
    %v = memref.load %a[%c0, %i] : memref<4x8xf32>
    memref.store %v, %b[%i, %c0] : memref<4x8xf32>
  }
  return
}

// -----

func.func @tensors(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{must be bufferized before it becomes loops}}
  %c = linalg.copy ins(%a : tensor<4xf32>) outs(%b : tensor<4xf32>) -> tensor<4xf32>
  return %c : tensor<4xf32>
}
