// Large buffers that a loop reads by vectors get a prefetch a distance ahead, one per line.

// RUN: qtranspose-opt %s --pass-pipeline='builtin.module(qtranspose-prefetch-streams{distance=1024 smallest=4096})' \
// RUN:   | FileCheck %s

// Rows of two vectors: one line each time, though there are two reads of it. A vector of two lines: two.

// CHECK-DAG: #[[$W:.*]] = affine_map<(d0) -> (d0 * 64 + 1024)>
// CHECK-DAG: #[[$S0:.*]] = affine_map<(d0) -> (d0 * 32 + 256)>
// CHECK-DAG: #[[$S1:.*]] = affine_map<(d0) -> (d0 * 32 + 272)>
// CHECK-LABEL: func @streams
// CHECK-SAME: %[[W:[^:]*]]: memref<128x64xi8>, %[[S:[^:]*]]: memref<128x32xf32>
// CHECK-DAG: %[[WA:.*]] = memref.collapse_shape %[[W]] {{.*}} into memref<8192xi8>
// CHECK-DAG: %[[SA:.*]] = memref.collapse_shape %[[S]] {{.*}} into memref<4096xf32>
// CHECK: scf.for %[[I:.*]] =
// CHECK:   %[[A:.*]] = affine.apply #[[$W]](%[[I]])
// CHECK:   memref.prefetch %[[WA]][%[[A]]], read, locality<3>, data
// CHECK:   vector.transfer_read %[[W]]
// CHECK-NOT: prefetch
// CHECK:   vector.transfer_read %[[W]]
// CHECK:   %[[B:.*]] = affine.apply #[[$S0]](%[[I]])
// CHECK:   memref.prefetch %[[SA]][%[[B]]], read
// CHECK:   %[[C:.*]] = affine.apply #[[$S1]](%[[I]])
// CHECK:   memref.prefetch %[[SA]][%[[C]]], read
// CHECK:   vector.transfer_read %[[S]]
// CHECK-NOT: prefetch
func.func @streams(%w: memref<128x64xi8>, %s: memref<128x32xf32>, %out: memref<32xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %c128 = arith.constant 128 : index
  %p = arith.constant 0 : i8
  %f = arith.constant 0.0 : f32
  scf.for %i = %c0 to %c128 step %c1 {
    %a = vector.transfer_read %w[%i, %c0], %p {in_bounds = [true]} : memref<128x64xi8>, vector<32xi8>
    %b = vector.transfer_read %w[%i, %c32], %p {in_bounds = [true]} : memref<128x64xi8>, vector<32xi8>
    %c = vector.transfer_read %s[%i, %c0], %f {in_bounds = [true]} : memref<128x32xf32>, vector<32xf32>
    %d = arith.addi %a, %b : vector<32xi8>
    %e = arith.sitofp %d : vector<32xi8> to vector<32xf32>
    %g = arith.mulf %e, %c : vector<32xf32>
    vector.transfer_write %g, %out[%c0] {in_bounds = [true]} : vector<32xf32>, memref<32xf32>
  }
  return
}
