// RUN: qtranspose-opt %s --split-input-file --verify-diagnostics --qtranspose-isolate-buffers

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
