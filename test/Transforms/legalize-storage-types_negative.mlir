// What does not concern the pass stays as it is, dead ops and duplicate constants included; what cannot be lowered has
// one diagnostic.

// RUN: sed '/^\/\/ -----/,$d' %s > %t.mlir
// RUN: qtranspose-opt %t.mlir -o %t.before
// RUN: qtranspose-opt %t.mlir --qtranspose-legalize-storage-types -o %t.after
// RUN: diff %t.before %t.after
// RUN: qtranspose-opt %s --split-input-file --verify-diagnostics --qtranspose-legalize-storage-types > /dev/null

// Elements of whole bytes, and scalars of any width.

func.func @whole_bytes(%a: tensor<2xi8>, %b: tensor<2xbf16>, %c: i1, %d: i4, %e: vector<4xi1>) -> (i4, tensor<2xi16>) {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %w = arith.constant dense<[-1, 300]> : tensor<2xi16>
  %t = arith.trunci %dead : i32 to i4
  return %d, %w : i4, tensor<2xi16>
}

// -----

func.func @short_resource() -> tensor<4xi4> {
  // expected-error @+1 {{dense_resource 'short' holds 1 bytes, which is not what 'tensor<4xi4>' needs}}
  %w = arith.constant dense_resource<short> : tensor<4xi4>
  return %w : tensor<4xi4>
}

{-#
  dialect_resources: {
    builtin: {
      short: "0x010000008F"
    }
  }
#-}

// -----

func.func @missing_resource() -> tensor<4xi4> {
  // expected-error @+1 {{the data of dense_resource 'missing' is missing}}
  %w = arith.constant dense_resource<missing> : tensor<4xi4>
  return %w : tensor<4xi4>
}

// -----

func.func @vector(%m: memref<8xi4>, %i: index) -> vector<4xi4> {
  // expected-error @+1 {{'vector.load' is not supported on tensors or buffers of sub-byte or odd-width}}
  %v = vector.load %m[%i] : memref<8xi4>, vector<4xi4>
  return %v : vector<4xi4>
}
