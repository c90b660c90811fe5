// What does not concern the pass stays as it is, dead ops and duplicate constants included; what cannot be lowered has
// one diagnostic.

// RUN: sed '/^\/\/ -----/,$d' %s > %t.mlir
// RUN: qtranspose-opt %t.mlir -o %t.before
// RUN: qtranspose-opt %t.mlir --qtranspose-isolate-buffers -o %t.after
// RUN: diff %t.before %t.after
// RUN: qtranspose-opt %s --split-input-file --verify-diagnostics --qtranspose-isolate-buffers > /dev/null

// Functions that only the program itself calls, and buffers, which their owner may write.

func.func @buffers(%x: memref<2xf32>, %n: i32) -> i32 {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  return %n : i32
}
func.func private @helper(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func private @declared(tensor<2xf32>) -> tensor<2xf32>

// -----

// expected-error @+1 {{state must be a tensor of static shape or a scalar}}
ml_program.global private mutable @dynamic : tensor<?xf32>

// -----

// expected-error @+1 {{state must have a value in the program}}
ml_program.global private @elsewhere(#ml_program.extern<tensor<4xi32>>) : tensor<4xi32>

// -----

ml_program.func @other() {
  // expected-error @+1 {{'ml_program.return' is not supported by the CPU target}}
  ml_program.return
}
