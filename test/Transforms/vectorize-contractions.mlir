// RUN: qtranspose-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(qtranspose-vectorize-contractions{vector-bits=128 allow-reassociation contract},canonicalize,cse)' \
// RUN:   | FileCheck %s
// RUN: qtranspose-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(qtranspose-vectorize-contractions{vector-bits=128},canonicalize,cse)' \
// RUN:   | FileCheck %s --check-prefix=EXACT

// An output lies along the vectors; the scale is read outside the sum; sums are loop values. 24 = 16 + 8.

#x = affine_map<(d0, d1) -> (d1)>
#w = affine_map<(d0, d1) -> (d1, d0)>
#n = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: func @matvec
// CHECK-SAME: %[[X:.*]]: tensor<64xf32>, %[[W:.*]]: tensor<64x24xi8>, %[[S:.*]]: tensor<24xf32>
// CHECK: %[[S0:.*]] = vector.transfer_read %[[S]][%c0]{{.*}} vector<16xf32>
// CHECK: %[[SUM0:.*]] = scf.for %[[K:.*]] = %c0 to %c64 step %c4 iter_args(%[[ACC:.*]] = %{{.*}}) -> (vector<16xf32>)
// CHECK:   %[[XK:.*]] = tensor.extract %[[X]][%[[K]]]
// CHECK:   %[[Q:.*]] = vector.transfer_read %[[W]][%[[K]], %c0]{{.*}} vector<16xi8>
// CHECK:   %[[F:.*]] = arith.sitofp %[[Q]] : vector<16xi8> to vector<16xf32>
// CHECK:   %[[D:.*]] = arith.mulf %[[F]], %[[S0]] fastmath<contract>
// CHECK:   %[[XV:.*]] = vector.broadcast %[[XK]]
// CHECK:   %[[P:.*]] = arith.mulf %[[XV]], %[[D]] fastmath<contract>
// CHECK:   arith.addf %[[ACC]], %[[P]] fastmath<contract>
// CHECK: vector.transfer_write %[[SUM0]]
// CHECK: vector.transfer_read %[[S]][%c16]{{.*}} vector<8xf32>
// CHECK: scf.for {{.*}} -> (vector<8xf32>)
// EXACT-LABEL: func @matvec
// EXACT: arith.addf %{{.*}}, %{{.*}} : vector<16xf32>
func.func @matvec(%x: tensor<64xf32>, %w: tensor<64x24xi8>, %s: tensor<24xf32>) -> tensor<24xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<24xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<24xf32>) -> tensor<24xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #n, #n], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w, %s : tensor<64xf32>, tensor<64x24xi8>, tensor<24xf32>) outs(%i : tensor<24xf32>) {
  ^bb0(%a: f32, %q: i8, %scale: f32, %acc: f32):
    %f = arith.sitofp %q : i8 to f32
    %d = arith.mulf %f, %scale : f32
    %p = arith.mulf %a, %d : f32
    %sum = arith.addf %acc, %p : f32
    linalg.yield %sum : f32
  } -> tensor<24xf32>
  return %y : tensor<24xf32>
}

// -----

// Rows share the vectors of the right operand: all five in one block. What is there already is added to.

// CHECK-LABEL: func @rows
// CHECK-SAME: %[[X:.*]]: tensor<5x16xf32>, %[[W:.*]]: tensor<16x8xf32>, %[[INIT:.*]]: tensor<5x8xf32>
// CHECK: vector.transfer_read %[[INIT]]
// CHECK: scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>, vector<8xf32>)
// CHECK: vector.transfer_read %[[W]]{{.*}} vector<8xf32>
// CHECK-COUNT-5: arith.addf
// CHECK: vector.transfer_read %[[W]]{{.*}} vector<8xf32>
func.func @rows(%x: tensor<5x16xf32>, %w: tensor<16x8xf32>, %init: tensor<5x8xf32>) -> tensor<5x8xf32> {
  %y = linalg.matmul ins(%x, %w : tensor<5x16xf32>, tensor<16x8xf32>) outs(%init : tensor<5x8xf32>) -> tensor<5x8xf32>
  return %y : tensor<5x8xf32>
}

// -----

// Dynamic rows: whole blocks, then halves of them.

// CHECK-LABEL: func @dynamic_rows
// CHECK: %[[M:.*]] = tensor.dim
// CHECK: scf.for {{.*}} step %c4
// CHECK: scf.for {{.*}} step %c2
// CHECK: scf.for {{.*}} step %c1
func.func @dynamic_rows(%x: tensor<?x64xf32>, %w: tensor<64x8xf32>, %init: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = linalg.matmul ins(%x, %w : tensor<?x64xf32>, tensor<64x8xf32>) outs(%init : tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

// The operands are contiguous along the sum: each lane has a sum of its own, for floats only where that is allowed.

#x = affine_map<(d0, d1) -> (d1)>
#w = affine_map<(d0, d1) -> (d0, d1)>
#n = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: func @lanes_of_a_sum
// CHECK: %[[SUMS:.*]]:8 = scf.for {{.*}} to %c64 step %c4
// CHECK: vector.reduction <add>, %[[SUMS]]#0 fastmath<reassoc> : vector<4xf32> into f32
// EXACT-LABEL: func @lanes_of_a_sum
// EXACT: linalg.generic
func.func @lanes_of_a_sum(%x: tensor<64xf32>, %w: tensor<8x64xi8>, %i: tensor<8xf32>) -> tensor<8xf32> {
  %y = linalg.generic {indexing_maps = [#x, #w, #n], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<64xf32>, tensor<8x64xi8>) outs(%i : tensor<8xf32>) {
  ^bb0(%a: f32, %q: i8, %acc: f32):
    %f = arith.sitofp %q : i8 to f32
    %p = arith.mulf %a, %f : f32
    %sum = arith.addf %acc, %p : f32
    linalg.yield %sum : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// Integers may always be added in another order. 70 = 68 + 2: the lanes that are left have a sum of their own.

#x = affine_map<(d0, d1) -> (d1)>
#w = affine_map<(d0, d1) -> (d0, d1)>
#n = affine_map<(d0, d1) -> (d0)>
// EXACT-LABEL: func @integers
// EXACT: scf.for {{.*}} to %c68 step %c4
// EXACT: vector.reduction <add>, %{{.*}} : vector<4xi32> into i32
// EXACT: vector.reduction <add>, %{{.*}} : vector<2xi32> into i32
func.func @integers(%x: tensor<70xi8>, %w: tensor<9x70xi8>, %i: tensor<9xi32>) -> tensor<9xi32> {
  %y = linalg.generic {indexing_maps = [#x, #w, #n], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<70xi8>, tensor<9x70xi8>) outs(%i : tensor<9xi32>) {
  ^bb0(%a: i8, %q: i8, %acc: i32):
    %f = arith.extsi %q : i8 to i32
    %g = arith.extsi %a : i8 to i32
    %p = arith.muli %g, %f : i32
    %sum = arith.addi %acc, %p : i32
    linalg.yield %sum : i32
  } -> tensor<9xi32>
  return %y : tensor<9xi32>
}
