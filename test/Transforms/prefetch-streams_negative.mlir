// Left alone: small buffers, addresses that a loop does not move, buffers of one iteration, dynamic sizes, strided rows.

// DEFINE: %{pass} = qtranspose-prefetch-streams
// RUN: qtranspose-opt %s -o %t.before
// RUN: qtranspose-opt %s --pass-pipeline='builtin.module(%{pass}{smallest=4096})' -o %t.after
// RUN: diff %t.before %t.after
// RUN: not qtranspose-opt %s --qtranspose-prefetch-streams=distance=-1 2>&1 | FileCheck %s

// CHECK: error: qtranspose-prefetch-streams: distance and smallest must not be negative

func.func @others(%small: memref<32x64xi8>, %w: memref<128x64xi8>, %any: memref<?x64xi8>,
                  %apart: memref<128x64xi8, strided<[128, 1]>>, %out: memref<64xi8>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %p = arith.constant 0 : i8
  %outside = vector.transfer_read %w[%c1, %c0], %p {in_bounds = [true]} : memref<128x64xi8>, vector<64xi8>
  vector.transfer_write %outside, %out[%c0] {in_bounds = [true]} : vector<64xi8>, memref<64xi8>
  scf.for %i = %c0 to %c32 step %c1 {
    %own = memref.alloc() : memref<128x64xi8>
    %0 = vector.transfer_read %small[%i, %c0], %p {in_bounds = [true]} : memref<32x64xi8>, vector<64xi8>
    %1 = vector.transfer_read %w[%c1, %c0], %p {in_bounds = [true]} : memref<128x64xi8>, vector<64xi8>
    %2 = vector.transfer_read %own[%i, %c0], %p {in_bounds = [true]} : memref<128x64xi8>, vector<64xi8>
    %3 = vector.transfer_read %any[%i, %c0], %p {in_bounds = [true]} : memref<?x64xi8>, vector<64xi8>
    %4 = vector.transfer_read %apart[%i, %c0], %p {in_bounds = [true]}
      : memref<128x64xi8, strided<[128, 1]>>, vector<64xi8>
    %5 = arith.addi %0, %1 : vector<64xi8>
    %6 = arith.addi %5, %2 : vector<64xi8>
    %7 = arith.addi %6, %3 : vector<64xi8>
    %8 = arith.addi %7, %4 : vector<64xi8>
    vector.transfer_write %8, %out[%c0] {in_bounds = [true]} : vector<64xi8>, memref<64xi8>
    memref.dealloc %own : memref<128x64xi8>
  }
  return
}
