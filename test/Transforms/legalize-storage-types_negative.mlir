// RUN: qtranspose-opt %s --split-input-file --verify-diagnostics --qtranspose-legalize-storage-types | FileCheck %s

// Whole bytes stay, and so do scalars of any width.

// CHECK-LABEL: func.func @whole_bytes(%{{.*}}: tensor<2xi8>, %{{.*}}: tensor<2xbf16>, %{{.*}}: i1, %{{.*}}: i4) -> i4
// CHECK-NEXT:    return
func.func @whole_bytes(%a: tensor<2xi8>, %b: tensor<2xbf16>, %c: i1, %d: i4) -> i4 {
  return %d : i4
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
