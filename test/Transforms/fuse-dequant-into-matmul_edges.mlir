// Programs at the edges of what the pass takes apart: it must not crash, and what it makes must verify and be final.
// test/numeric/test_fuse_forms.py executes them before and after.

// RUN: qtranspose-opt %s --split-input-file --qtranspose-fuse-dequant-into-matmul=decision=element -o %t.once \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --implicit-check-not=remark:
// RUN: qtranspose-opt %t.once --split-input-file --qtranspose-fuse-dequant-into-matmul=decision=element -o %t.twice
// RUN: diff %t.once %t.twice
// RUN: qtranspose-opt %s --split-input-file --qtranspose-fuse-dequant-into-matmul=decision=tile -o %t.once
// RUN: qtranspose-opt %t.once --split-input-file --qtranspose-fuse-dequant-into-matmul=decision=tile -o %t.twice
// RUN: diff %t.once %t.twice

// Neither leaf has the summed dim: one operand stays, so that something says how long the sum is.

// CHECK: remark: [Missed] not-factorable | {{.*}} Function=k_in_no_leaf |
// CHECK: remark: [Passed] fused | {{.*}} Function=k_in_no_leaf |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
#c = affine_map<(d0, d1) -> (d0, 0)>
func.func @k_in_no_leaf(%a: tensor<4x1xi8>, %b: tensor<6x1xi8>, %init: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %ea = tensor.empty() : tensor<4x8xf32>
  %eb = tensor.empty() : tensor<6x8xf32>
  %l = linalg.generic {indexing_maps = [#c, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<4x1xi8>) outs(%ea : tensor<4x8xf32>) {
  ^bb0(%in: i8, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<4x8xf32>
  %r = linalg.generic {indexing_maps = [#c, #id], iterator_types = ["parallel", "parallel"]}
      ins(%b : tensor<6x1xi8>) outs(%eb : tensor<6x8xf32>) {
  ^bb0(%in: i8, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x8xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%l, %r : tensor<4x8xf32>, tensor<6x8xf32>) outs(%init : tensor<4x6xf32>) -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// -----

// Weights of `index` elements.

// CHECK: remark: [Passed] fused | {{.*}} Function=index_tensor |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @index_tensor(%x: tensor<4x6xf32>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %q = arith.constant dense<[[1,2,3,4,5,6],[6,5,4,3,2,1],[0,9,8,7,1,2],[3,3,3,1,1,2],[7,1,2,5,4,0]]> : tensor<5x6xindex>
  %e = tensor.empty() : tensor<5x6xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<5x6xindex>) outs(%e : tensor<5x6xf32>) {
  ^bb0(%in: index, %o: f32):
    %i = arith.index_cast %in : index to i32
    %c = arith.sitofp %i : i32 to f32
    linalg.yield %c : f32
  } -> tensor<5x6xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x6xf32>, tensor<5x6xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// A callee of a callee, reached from two calls: each has its own argument.

// CHECK: remark: [Passed] fused | {{.*}} Function=nested_calls_same_coordinates |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @nested_calls_same_coordinates(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>,
    %init: tensor<4x48xf32>, %q2: tensor<48x64xi8>) -> tensor<4x48xf32> {
  %a = call @f4(%q2) : (tensor<48x64xi8>) -> tensor<48x64xf32>
  %b = call @f4(%q) : (tensor<48x64xi8>) -> tensor<48x64xf32>
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.sub ins(%a, %b : tensor<48x64xf32>, tensor<48x64xf32>) outs(%e : tensor<48x64xf32>) -> tensor<48x64xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x64xf32>, tensor<48x64xf32>) outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}
func.func private @f4(%q: tensor<48x64xi8>) -> tensor<48x64xf32> {
  %r = call @g4(%q) : (tensor<48x64xi8>) -> tensor<48x64xf32>
  return %r : tensor<48x64xf32>
}
func.func private @g4(%q: tensor<48x64xi8>) -> tensor<48x64xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<48x64xi8>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<48x64xf32>
  return %w : tensor<48x64xf32>
}

// -----

// The position in the padded dim is a division, so nothing can be cut: no map may leave the leaf.

// CHECK: remark: [Passed] fused | {{.*}} Function=pad_then_collapse |
#one = affine_map<(d0) -> (d0)>
func.func @pad_then_collapse(%x: tensor<4x128xf32>, %q: tensor<16x4xi8>, %init: tensor<4xf32>) -> tensor<4xf32> {
  %z = arith.constant 3 : i8
  %p = tensor.pad %q low[16, 0] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : i8
  } : tensor<16x4xi8> to tensor<32x4xi8>
  %f = tensor.collapse_shape %p [[0, 1]] : tensor<32x4xi8> into tensor<128xi8>
  %e = tensor.empty() : tensor<128xf32>
  %w = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%f : tensor<128xi8>)
      outs(%e : tensor<128xf32>) {
  ^bb0(%in: i8, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<128xf32>
  %y = linalg.matvec ins(%x, %w : tensor<4x128xf32>, tensor<128xf32>) outs(%init : tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Likewise for inserted halves.

// CHECK: remark: [Passed] fused | {{.*}} Function=inserts_then_collapse |
#one = affine_map<(d0) -> (d0)>
func.func @inserts_then_collapse(%x: tensor<4x128xf32>, %q: tensor<16x4xi8>, %q2: tensor<16x4xi8>,
    %p0: tensor<32x4xi8>, %init: tensor<4xf32>) -> tensor<4xf32> {
  %p1 = tensor.insert_slice %q into %p0[16, 0] [16, 4] [1, 1] : tensor<16x4xi8> into tensor<32x4xi8>
  %p = tensor.insert_slice %q2 into %p1[0, 0] [16, 4] [1, 1] : tensor<16x4xi8> into tensor<32x4xi8>
  %f = tensor.collapse_shape %p [[0, 1]] : tensor<32x4xi8> into tensor<128xi8>
  %e = tensor.empty() : tensor<128xf32>
  %w = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%f : tensor<128xi8>)
      outs(%e : tensor<128xf32>) {
  ^bb0(%in: i8, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<128xf32>
  %y = linalg.matvec ins(%x, %w : tensor<4x128xf32>, tensor<128xf32>) outs(%init : tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// A quarter is inserted: positions before and after it are neither cut nor unified.

// CHECK: remark: [Missed] not-factorable | {{.*}} Function=insert_then_collapse |
#one = affine_map<(d0) -> (d0)>
func.func @insert_then_collapse(%x: tensor<4x256xf32>, %q: tensor<16x4xi8>, %p0: tensor<64x4xi8>,
    %init: tensor<4xf32>) -> tensor<4xf32> {
  %p = tensor.insert_slice %q into %p0[16, 0] [16, 4] [1, 1] : tensor<16x4xi8> into tensor<64x4xi8>
  %f = tensor.collapse_shape %p [[0, 1]] : tensor<64x4xi8> into tensor<256xi8>
  %e = tensor.empty() : tensor<256xf32>
  %w = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%f : tensor<256xi8>)
      outs(%e : tensor<256xf32>) {
  ^bb0(%in: i8, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<256xf32>
  %y = linalg.matvec ins(%x, %w : tensor<4x256xf32>, tensor<256xf32>) outs(%init : tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// Signed division of a negative index rounds up, floordiv does not.

// CHECK: remark: [Passed] fused | {{.*}} Function=truncating_division |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @truncating_division(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>,
    %init: tensor<4x48xf32>) -> tensor<4x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %i = linalg.index 0 : index
    %m5 = arith.constant -5 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %a = arith.addi %i, %m5 : index
    %b = arith.divsi %a, %c2 : index
    %r = arith.addi %b, %c3 : index
    %v = tensor.extract %s[%r] : tensor<48xf32>
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %v : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x64xf32>, tensor<48x64xf32>) outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// A map that divides and rounds up is read by a computed index.

// CHECK: remark: [Passed] fused | {{.*}} Function=map_with_ceildiv |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @map_with_ceildiv(%x: tensor<4x30xf32>, %q: tensor<20x30xi8>, %s: tensor<20x9xf32>,
    %init: tensor<4x20xf32>) -> tensor<4x20xf32> {
  %e = tensor.empty() : tensor<20x30xf32>
  %w = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1) -> (d0, d1 ceildiv 4)>, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<20x30xi8>, tensor<20x9xf32>) outs(%e : tensor<20x30xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<20x30xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x30xf32>, tensor<20x30xf32>) outs(%init : tensor<4x20xf32>) -> tensor<4x20xf32>
  return %y : tensor<4x20xf32>
}

// -----

// A map that divides what is negative for some elements.

// CHECK: remark: [Passed] fused | {{.*}} Function=map_with_negative_division |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @map_with_negative_division(%x: tensor<4x30xf32>, %q: tensor<20x30xi8>, %s: tensor<20x20xf32>,
    %init: tensor<4x20xf32>) -> tensor<4x20xf32> {
  %e = tensor.empty() : tensor<20x30xf32>
  %w = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1)
      -> (d0, (d1 - 5) floordiv 4 + 2 + (d1 - 7) mod 3)>, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<20x30xi8>, tensor<20x20xf32>) outs(%e : tensor<20x30xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<20x30xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x30xf32>, tensor<20x30xf32>) outs(%init : tensor<4x20xf32>) -> tensor<4x20xf32>
  return %y : tensor<4x20xf32>
}

// -----

// The sum is ragged and the outputs are concatenated: the cut keeps what is known of the sum.

// CHECK: remark: [Passed] fused | {{.*}} Function=ragged_and_concatenated |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
#g = affine_map<(d0, d1) -> (d0, d1 floordiv 16)>
func.func @ragged_and_concatenated(%x: tensor<4x60xf32>, %qa: tensor<20x60xi8>, %qb: tensor<12x60xi8>,
    %sa: tensor<20x4xf32>, %sb: tensor<12x4xf32>, %init: tensor<4x32xf32>) -> tensor<4x32xf32> {
  %ea = tensor.empty() : tensor<20x60xf32>
  %wa = linalg.generic {indexing_maps = [#id, #g, #id], iterator_types = ["parallel", "parallel"]}
      ins(%qa, %sa : tensor<20x60xi8>, tensor<20x4xf32>) outs(%ea : tensor<20x60xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<20x60xf32>
  %eb = tensor.empty() : tensor<12x60xf32>
  %wb = linalg.generic {indexing_maps = [#id, #g, #id], iterator_types = ["parallel", "parallel"]}
      ins(%qb, %sb : tensor<12x60xi8>, tensor<12x4xf32>) outs(%eb : tensor<12x60xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<12x60xf32>
  %w = tensor.concat dim(0) %wa, %wb : (tensor<20x60xf32>, tensor<12x60xf32>) -> tensor<32x60xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x60xf32>, tensor<32x60xf32>) outs(%init : tensor<4x32xf32>) -> tensor<4x32xf32>
  return %y : tensor<4x32xf32>
}

// -----

// A cut in the middle of a ragged sum: terms past the cut are not terms past the end.

// CHECK: remark: [Passed] fused | {{.*}} Function=ragged_infinite_activation |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @ragged_infinite_activation(%x: tensor<4x60xf32>, %qa: tensor<20x33xi8>, %qb: tensor<20x27xi8>,
    %s: tensor<20x4xf32>, %init: tensor<4x20xf32>) -> tensor<4x20xf32> {
  %cc = tensor.concat dim(1) %qa, %qb : (tensor<20x33xi8>, tensor<20x27xi8>) -> tensor<20x60xi8>
  %e = tensor.empty() : tensor<20x60xf32>
  %w = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1) -> (d0, d1 floordiv 16)>, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%cc, %s : tensor<20x60xi8>, tensor<20x4xf32>) outs(%e : tensor<20x60xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<20x60xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x60xf32>, tensor<20x60xf32>) outs(%init : tensor<4x20xf32>) -> tensor<4x20xf32>
  return %y : tensor<4x20xf32>
}

// -----

// The activations are stored as integers, too; running the pass again leaves them alone.

// CHECK: remark: [Passed] fused | {{.*}} Function=ragged_int_activation |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
#g = affine_map<(d0, d1) -> (d0, d1 floordiv 16)>
func.func @ragged_int_activation(%x: tensor<4x60xi8>, %q: tensor<20x60xi8>, %z: tensor<20x4xi8>,
    %init: tensor<4x20xi32>) -> tensor<4x20xi32> {
  %e = tensor.empty() : tensor<20x60xi32>
  %w = linalg.generic {indexing_maps = [#id, #g, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %z : tensor<20x60xi8>, tensor<20x4xi8>) outs(%e : tensor<20x60xi32>) {
  ^bb0(%in: i8, %sc: i8, %o: i32):
    %a = arith.extsi %in : i8 to i32
    %b = arith.extsi %sc : i8 to i32
    %m = arith.subi %a, %b : i32
    linalg.yield %m : i32
  } -> tensor<20x60xi32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x,
      %w : tensor<4x60xi8>, tensor<20x60xi32>) outs(%init : tensor<4x20xi32>) {
  ^bb0(%a: i8, %b: i32, %o: i32):
    %c = arith.extsi %a : i8 to i32
    %p = arith.muli %c, %b : i32
    %r = arith.addi %o, %p : i32
    linalg.yield %r : i32
  } -> tensor<4x20xi32>
  return %y : tensor<4x20xi32>
}

// -----

// Two groupings of one sum, neither of which divides it or the other.

// CHECK: remark: [Passed] fused | {{.*}} Function=ragged_k_second_group |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 12
func.func @ragged_k_second_group(%x: tensor<4x60xf32>, %q: tensor<20x60xi8>, %sa: tensor<20x4xf32>,
    %sb: tensor<20x9xf32>, %init: tensor<4x20xf32>) -> tensor<4x20xf32> {
  %e = tensor.empty() : tensor<20x60xf32>
  %w = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1) -> (d0, d1 floordiv 16)>, affine_map<(d0, d1)
      -> (d0, d1 floordiv 7)>, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %sa, %sb : tensor<20x60xi8>, tensor<20x4xf32>, tensor<20x9xf32>) outs(%e : tensor<20x60xf32>) {
  ^bb0(%in: i8, %sc: f32, %s2: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    %m2 = arith.addf %m, %s2 : f32
    linalg.yield %m2 : f32
  } -> tensor<20x60xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x60xf32>, tensor<20x60xf32>) outs(%init : tensor<4x20xf32>) -> tensor<4x20xf32>
  return %y : tensor<4x20xf32>
}

// -----

// The last block of rows is short.

// CHECK: remark: [Passed] fused | {{.*}} Function=ragged_n |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 12
func.func @ragged_n(%x: tensor<4x32xf32>, %q: tensor<20x32xi8>, %sa: tensor<3x32xf32>, %init: tensor<4x20xf32>)
    -> tensor<4x20xf32> {
  %e = tensor.empty() : tensor<20x32xf32>
  %w = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1) -> (d0 floordiv 8, d1)>, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%q, %sa : tensor<20x32xi8>, tensor<3x32xf32>) outs(%e : tensor<20x32xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<20x32xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x32xf32>, tensor<20x32xf32>) outs(%init : tensor<4x20xf32>) -> tensor<4x20xf32>
  return %y : tensor<4x20xf32>
}

// -----

// A window without elements.

// CHECK: remark: [Passed] fused | {{.*}} Function=zero_kernel_conv |
#i3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @zero_kernel_conv(%x: tensor<1x3x8xi8>, %k: tensor<2x3x0xf32>, %init: tensor<1x2x4xf32>)
    -> tensor<1x2x4xf32> {
  %e = tensor.empty() : tensor<1x3x8xf32>
  %w = linalg.generic {indexing_maps = [#i3, #i3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x3x8xi8>) outs(%e : tensor<1x3x8xf32>) {
  ^bb0(%in: i8, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<1x3x8xf32>
  %y = linalg.conv_1d_ncw_fcw {strides = dense<2> : tensor<1xi64>, dilations = dense<1> : tensor<1xi64>} ins(%w,
      %k : tensor<1x3x8xf32>, tensor<2x3x0xf32>) outs(%init : tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  return %y : tensor<1x2x4xf32>
}

// -----

// Image and kernel are quantized; their dims overlap in the image.

// CHECK: remark: [Passed] fused | {{.*}} Function=conv_quantized_image |
#i3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @conv_quantized_image(%x: tensor<1x3x9xi8>, %k: tensor<2x3x3xi8>, %init: tensor<1x2x4xf32>)
    -> tensor<1x2x4xf32> {
  %e = tensor.empty() : tensor<1x3x9xf32>
  %w = linalg.generic {indexing_maps = [#i3, #i3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x3x9xi8>) outs(%e : tensor<1x3x9xf32>) {
  ^bb0(%in: i8, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<1x3x9xf32>
  %e2 = tensor.empty() : tensor<2x3x3xf32>
  %kf = linalg.generic {indexing_maps = [#i3, #i3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%k : tensor<2x3x3xi8>) outs(%e2 : tensor<2x3x3xf32>) {
  ^bb0(%in: i8, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<2x3x3xf32>
  %y = linalg.conv_1d_ncw_fcw {strides = dense<2> : tensor<1xi64>, dilations = dense<1> : tensor<1xi64>} ins(%w,
      %kf : tensor<1x3x9xf32>, tensor<2x3x3xf32>) outs(%init : tensor<1x2x4xf32>) -> tensor<1x2x4xf32>
  return %y : tensor<1x2x4xf32>
}

// -----

// The result goes to every fourth column of its init.

// CHECK: remark: [Passed] fused | {{.*}} Function=strided_output |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @strided_output(%x: tensor<4x64xf32>, %q: tensor<6x64xi8>, %s: tensor<6xf32>, %init: tensor<4x24xf32>)
    -> tensor<4x24xf32> {
  %e = tensor.empty() : tensor<6x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<6x64xi8>, tensor<6xf32>) outs(%e : tensor<6x64xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<6x64xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, affine_map<(m, n, k) -> (m, n * 4 + 1)>],
      iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<4x64xf32>, tensor<6x64xf32>)
      outs(%init : tensor<4x24xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %o, %p : f32
    linalg.yield %r : f32
  } -> tensor<4x24xf32>
  return %y : tensor<4x24xf32>
}

// -----

// Diagonals of weight and result.

// CHECK: remark: [Passed] fused | {{.*}} Function=diagonals |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @diagonals(%x: tensor<6x64xf32>, %q: tensor<6x6xi8>, %s: tensor<6xf32>, %init: tensor<6x6xf32>)
    -> tensor<6x6xf32> {
  %e = tensor.empty() : tensor<6x6xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<6x6xi8>, tensor<6xf32>) outs(%e : tensor<6x6xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<6x6xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n, n)>,
      affine_map<(n, k) -> (n, n)>], iterator_types = ["parallel", "reduction"]} ins(%x,
      %w : tensor<6x64xf32>, tensor<6x6xf32>) outs(%init : tensor<6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %o, %p : f32
    linalg.yield %r : f32
  } -> tensor<6x6xf32>
  return %y : tensor<6x6xf32>
}

// -----

// One weight is both operands.

// CHECK: remark: [Passed] fused | {{.*}} Function=weight_times_itself |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @weight_times_itself(%q: tensor<48x64xi8>, %s: tensor<48xf32>, %init: tensor<48x48xf32>)
    -> tensor<48x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%w, %w : tensor<48x64xf32>, tensor<48x64xf32>) outs(%init : tensor<48x48xf32>) -> tensor<48x48xf32>
  return %y : tensor<48x48xf32>
}

// -----

// A slice with a negative stride.

// CHECK: remark: [Passed] fused | {{.*}} Function=reversed_rows |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @reversed_rows(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>, %init: tensor<4x48xf32>)
    -> tensor<4x48xf32> {
  %rev = tensor.extract_slice %q[47, 0] [48, 64] [-1, 1] : tensor<48x64xi8> to tensor<48x64xi8>
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%rev, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x64xf32>, tensor<48x64xf32>) outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// A slice with strides in both dims.

// CHECK: remark: [Passed] fused | {{.*}} Function=strided_slices |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @strided_slices(%x: tensor<4x16xf32>, %q: tensor<48x64xi8>, %s: tensor<10xf32>, %init: tensor<4x10xf32>)
    -> tensor<4x10xf32> {
  %sl = tensor.extract_slice %q[3, 2] [10, 16] [4, 3] : tensor<48x64xi8> to tensor<10x16xi8>
  %e = tensor.empty() : tensor<10x16xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%sl, %s : tensor<10x16xi8>, tensor<10xf32>) outs(%e : tensor<10x16xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<10x16xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x16xf32>, tensor<10x16xf32>) outs(%init : tensor<4x10xf32>) -> tensor<4x10xf32>
  return %y : tensor<4x10xf32>
}

// -----

// A sum of something else than products: the body is kept as it is.

// CHECK: remark: [Passed] fused | {{.*}} Function=sum_of_differences |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @sum_of_differences(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>,
    %init: tensor<4x48xf32>) -> tensor<4x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x,
      %w : tensor<4x64xf32>, tensor<48x64xf32>) outs(%init : tensor<4x48xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.subf %a, %b : f32
    %d = arith.mulf %p, %p : f32
    %r = arith.addf %o, %d : f32
    linalg.yield %r : f32
  } -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// No sum: a maximum.

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 19
func.func @max_reduction(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>, %init: tensor<4x48xf32>)
    -> tensor<4x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x,
      %w : tensor<4x64xf32>, tensor<48x64xf32>) outs(%init : tensor<4x48xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.maximumf %o, %p : f32
    linalg.yield %r : f32
  } -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// No sum: a difference.

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 19
func.func @sub_reduction(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>, %init: tensor<4x48xf32>)
    -> tensor<4x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x,
      %w : tensor<4x64xf32>, tensor<48x64xf32>) outs(%init : tensor<4x48xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.subf %o, %p : f32
    linalg.yield %r : f32
  } -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// The accumulator is not used.

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 19
func.func @dropped_accumulator(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>,
    %init: tensor<4x48xf32>) -> tensor<4x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x,
      %w : tensor<4x64xf32>, tensor<48x64xf32>) outs(%init : tensor<4x48xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %p, %p : f32
    linalg.yield %r : f32
  } -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// The accumulator is added twice.

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @accumulator_twice(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>,
    %init: tensor<4x48xf32>) -> tensor<4x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x,
      %w : tensor<4x64xf32>, tensor<48x64xf32>) outs(%init : tensor<4x48xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %r0 = arith.addf %o, %p : f32
    %r = arith.addf %r0, %o : f32
    linalg.yield %r : f32
  } -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// The accumulator is multiplied.

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @accumulator_scaled(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>,
    %init: tensor<4x48xf32>) -> tensor<4x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x,
      %w : tensor<4x64xf32>, tensor<48x64xf32>) outs(%init : tensor<4x48xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %r0 = arith.mulf %o, %b : f32
    %r = arith.addf %r0, %p : f32
    linalg.yield %r : f32
  } -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// The contraction's body depends on where it is.

// CHECK: remark: [Passed] fused | {{.*}} Function=index_in_body |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 18
func.func @index_in_body(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>, %init: tensor<4x48xf32>)
    -> tensor<4x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x,
      %w : tensor<4x64xf32>, tensor<48x64xf32>) outs(%init : tensor<4x48xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %k = linalg.index 2 : index
    %n = linalg.index 1 : index
    %kn = arith.addi %k, %n : index
    %i = arith.index_cast %kn : index to i32
    %f = arith.sitofp %i : i32 to f32
    %p = arith.mulf %a, %b : f32
    %p2 = arith.mulf %p, %f : f32
    %r = arith.addf %o, %p2 : f32
    linalg.yield %r : f32
  } -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// It still does in both parts of a cut sum.

// CHECK: remark: [Passed] fused | {{.*}} Function=concat_along_k_index |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @concat_along_k_index(%x: tensor<4x32xf32>, %q: tensor<12x10xi8>, %q2: tensor<12x22xi8>,
    %s: tensor<12xf32>, %init: tensor<4x12xf32>) -> tensor<4x12xf32> {
  %cc = tensor.concat dim(1) %q, %q2 : (tensor<12x10xi8>, tensor<12x22xi8>) -> tensor<12x32xi8>
  %e = tensor.empty() : tensor<12x32xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%cc, %s : tensor<12x32xi8>, tensor<12xf32>) outs(%e : tensor<12x32xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<12x32xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x,
      %w : tensor<4x32xf32>, tensor<12x32xf32>) outs(%init : tensor<4x12xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %k = linalg.index 2 : index
    %i = arith.index_cast %k : index to i32
    %f = arith.sitofp %i : i32 to f32
    %p = arith.mulf %a, %b : f32
    %p2 = arith.mulf %p, %f : f32
    %r = arith.addf %o, %p2 : f32
    linalg.yield %r : f32
  } -> tensor<4x12xf32>
  return %y : tensor<4x12xf32>
}

// -----

// The producer reads its `outs` operand.

// CHECK: remark: [Passed] fused | {{.*}} Function=producer_reads_outs |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 18
func.func @producer_reads_outs(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>,
    %init: tensor<4x48xf32>, %b: tensor<48x64xf32>) -> tensor<4x48xf32> {
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<48x64xi8>) outs(%b : tensor<48x64xf32>) {
  ^bb0(%in: i8, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.addf %c, %o : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x64xf32>, tensor<48x64xf32>) outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// Two contractions read two results of one producer, one of which is written transposed.

// CHECK: remark: [Passed] fused | {{.*}} Function=several_results |
// CHECK: remark: [Passed] fused | {{.*}} Function=several_results |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 18
func.func @several_results(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>,
    %init: tensor<4x48xf32>) -> tensor<4x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %e2 = tensor.empty() : tensor<64x48xf32>
  %w2:2 = linalg.generic {indexing_maps = [#id, #row, #id, affine_map<(d0, d1) -> (d1, d0)>],
      iterator_types = ["parallel", "parallel"]} ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%e,
      %e2 : tensor<48x64xf32>, tensor<64x48xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32, %o2: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %c, %m : f32, f32
  } -> (tensor<48x64xf32>, tensor<64x48xf32>)
  %y0 = linalg.matmul ins(%x, %w2#1 : tensor<4x64xf32>, tensor<64x48xf32>) outs(%init : tensor<4x48xf32>)
      -> tensor<4x48xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w2#0 : tensor<4x64xf32>, tensor<48x64xf32>) outs(%y0 : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// One-bit weights.

// CHECK: remark: [Passed] fused | {{.*}} Function=odd_i1 |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @odd_i1(%x: tensor<4x64xf32>, %q: tensor<48x64xi1>, %s: tensor<48xf32>, %init: tensor<4x48xf32>)
    -> tensor<4x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi1>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i1, %sc: f32, %o: f32):
    %c = arith.uitofp %in : i1 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x64xf32>, tensor<48x64xf32>) outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// Three-bit weights.

// CHECK: remark: [Passed] fused | {{.*}} Function=odd_i3 |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 23
func.func @odd_i3(%x: tensor<4x64xf32>, %q: tensor<48x64xi3>, %s: tensor<48xf32>, %init: tensor<4x48xf32>)
    -> tensor<4x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi3>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i3, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i3 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x64xf32>, tensor<48x64xf32>) outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// Unsigned five-bit weights.

// CHECK: remark: [Passed] fused | {{.*}} Function=odd_i5 |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 23
func.func @odd_i5(%x: tensor<4x64xf32>, %q: tensor<48x64xi5>, %s: tensor<48xf32>, %init: tensor<4x48xf32>)
    -> tensor<4x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi5>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i5, %sc: f32, %o: f32):
    %c = arith.uitofp %in : i5 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x64xf32>, tensor<48x64xf32>) outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// Complex numbers have no addition of the kinds a sum is made of.

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @complex_matmul(%x: tensor<4x6xcomplex<f32>>, %q: tensor<5x6xi8>, %init: tensor<4x5xcomplex<f32>>)
    -> tensor<4x5xcomplex<f32>> {
  %e = tensor.empty() : tensor<5x6xcomplex<f32>>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<5x6xi8>) outs(%e : tensor<5x6xcomplex<f32>>) {
  ^bb0(%in: i8, %o: complex<f32>):
    %i = arith.sitofp %in : i8 to f32
    %c = complex.create %i, %i : complex<f32>
    linalg.yield %c : complex<f32>
  } -> tensor<5x6xcomplex<f32>>
  %y = linalg.matmul indexing_maps = [#x, #w, #y] ins(%x,
      %w : tensor<4x6xcomplex<f32>>, tensor<5x6xcomplex<f32>>) outs(%init : tensor<4x5xcomplex<f32>>)
      -> tensor<4x5xcomplex<f32>>
  return %y : tensor<4x5xcomplex<f32>>
}

// -----

// A splat of complex numbers is not one attribute.

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @splat_complex(%x: tensor<4x6xcomplex<f32>>, %q: tensor<5x6xi8>, %init: tensor<4x5xcomplex<f32>>)
    -> tensor<4x5xcomplex<f32>> {
  %w = arith.constant dense<(1.0, 2.0)> : tensor<5x6xcomplex<f32>>
  %y = linalg.matmul indexing_maps = [#x, #w, #y] ins(%x,
      %w : tensor<4x6xcomplex<f32>>, tensor<5x6xcomplex<f32>>) outs(%init : tensor<4x5xcomplex<f32>>)
      -> tensor<4x5xcomplex<f32>>
  return %y : tensor<4x5xcomplex<f32>>
}

// -----

// The result is a scalar.

// CHECK: remark: [Passed] fused | {{.*}} Function=dot |
#one = affine_map<(d0) -> (d0)>
func.func @dot(%x: tensor<64xf32>, %q: tensor<8x8xi8>, %init: tensor<f32>) -> tensor<f32> {
  %f = tensor.collapse_shape %q [[0, 1]] : tensor<8x8xi8> into tensor<64xi8>
  %e = tensor.empty() : tensor<64xf32>
  %w = linalg.generic {indexing_maps = [#one, #one], iterator_types = ["parallel"]} ins(%f : tensor<64xi8>)
      outs(%e : tensor<64xf32>) {
  ^bb0(%in: i8, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<64xf32>
  %y = linalg.dot ins(%x, %w : tensor<64xf32>, tensor<64xf32>) outs(%init : tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}

// -----

// Every dim is one.

// CHECK: remark: [Passed] fused | {{.*}} Function=all_unit |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @all_unit(%x: tensor<1x1xf32>, %q: tensor<1x1xi8>, %s: tensor<1xf32>, %init: tensor<1x1xf32>)
    -> tensor<1x1xf32> {
  %e = tensor.empty() : tensor<1x1xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<1x1xi8>, tensor<1xf32>) outs(%e : tensor<1x1xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<1x1xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<1x1xf32>, tensor<1x1xf32>) outs(%init : tensor<1x1xf32>) -> tensor<1x1xf32>
  return %y : tensor<1x1xf32>
}

// -----

// Every dim is dynamic.

// CHECK: remark: [Passed] fused | {{.*}} Function=all_dynamic |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 16
func.func @all_dynamic(%x: tensor<?x?xf32>, %q: tensor<?x?xi8>, %s: tensor<?xf32>, %init: tensor<?x?xf32>)
    -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %q, %c0 : tensor<?x?xi8>
  %k = tensor.dim %q, %c1 : tensor<?x?xi8>
  %e = tensor.empty(%n, %k) : tensor<?x?xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<?x?xi8>, tensor<?xf32>) outs(%e : tensor<?x?xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<?x?xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<?x?xf32>, tensor<?x?xf32>) outs(%init : tensor<?x?xf32>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// -----

// Static sizes are forgotten between weight and contraction.

// CHECK: remark: [Passed] fused | {{.*}} Function=dynamic_cast_static |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @dynamic_cast_static(%x: tensor<?x5xf32>, %q: tensor<7x5xi8>, %s: tensor<7xf32>, %init: tensor<?x7xf32>)
    -> tensor<?x7xf32> {
  %e = tensor.empty() : tensor<7x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<7x5xi8>, tensor<7xf32>) outs(%e : tensor<7x5xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<7x5xf32>
  %wd = tensor.cast %w : tensor<7x5xf32> to tensor<?x?xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %wd : tensor<?x5xf32>, tensor<?x?xf32>) outs(%init : tensor<?x7xf32>) -> tensor<?x7xf32>
  return %y : tensor<?x7xf32>
}

// -----

// Groups of a weight with a dynamic number of rows.

// CHECK: remark: [Passed] fused | {{.*}} Function=dynamic_groups |
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
#i3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @dynamic_groups(%x: tensor<5x32xf32>, %q: tensor<?x2x16xi8>, %s: tensor<?x2xf32>,
    %init: tensor<5x?xf32>) -> tensor<5x?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %q, %c0 : tensor<?x2x16xi8>
  %e = tensor.empty(%n) : tensor<?x2x16xf32>
  %w3 = linalg.generic {indexing_maps = [#i3, affine_map<(d0, d1, d2) -> (d0, d1)>, #i3],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q, %s : tensor<?x2x16xi8>, tensor<?x2xf32>) outs(%e : tensor<?x2x16xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<?x2x16xf32>
  %w = tensor.collapse_shape %w3 [[0], [1, 2]] : tensor<?x2x16xf32> into tensor<?x32xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y] ins(%x, %w : tensor<5x32xf32>, tensor<?x32xf32>)
      outs(%init : tensor<5x?xf32>) -> tensor<5x?xf32>
  return %y : tensor<5x?xf32>
}

// -----

// The weight says how long the sums are, the activation does not.

// CHECK: remark: [Passed] fused | {{.*}} Function=dynamic_activation_static_weight |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @dynamic_activation_static_weight(%x0: tensor<?x5xf32>, %q: tensor<5x5xi8>, %s: tensor<5xf32>,
    %init: tensor<?x5xf32>) -> tensor<?x5xf32> {
  %x = tensor.cast %x0 : tensor<?x5xf32> to tensor<?x?xf32>
  %e = tensor.empty() : tensor<5x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<5x5xi8>, tensor<5xf32>) outs(%e : tensor<5x5xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<5x5xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<?x?xf32>, tensor<5x5xf32>) outs(%init : tensor<?x5xf32>) -> tensor<?x5xf32>
  return %y : tensor<?x5xf32>
}

// -----

// Sums without terms.

// CHECK: remark: [Passed] fused | {{.*}} Function=no_terms |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @no_terms(%x: tensor<4x0xf32>, %q: tensor<48x0xi8>, %s: tensor<48xf32>, %init: tensor<4x48xf32>)
    -> tensor<4x48xf32> {
  %e = tensor.empty() : tensor<48x0xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x0xi8>, tensor<48xf32>) outs(%e : tensor<48x0xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x0xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x0xf32>, tensor<48x0xf32>) outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// Results without rows.

// CHECK: remark: [Passed] fused | {{.*}} Function=no_rows |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @no_rows(%x: tensor<0x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>, %init: tensor<0x48xf32>)
    -> tensor<0x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<0x64xf32>, tensor<48x64xf32>) outs(%init : tensor<0x48xf32>) -> tensor<0x48xf32>
  return %y : tensor<0x48xf32>
}

// -----

// The number of elements does not fit 64 bits.

// CHECK: remark: [Passed] fused | {{.*}} Function=huge |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @huge(%x: tensor<4x4611686018427387904xf32>, %q: tensor<3x4611686018427387904xi8>, %s: tensor<3xf32>,
    %init: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %e = tensor.empty() : tensor<3x4611686018427387904xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<3x4611686018427387904xi8>, tensor<3xf32>) outs(%e : tensor<3x4611686018427387904xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<3x4611686018427387904xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x4611686018427387904xf32>, tensor<3x4611686018427387904xf32>)
          outs(%init : tensor<4x3xf32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

// Blocks stand in another order than they run. The first matmul is only the init of a producer that goes.

// CHECK: remark: [Passed] fused | {{.*}} Function=blocks_against_dominance |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @blocks_against_dominance(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>,
    %init: tensor<4x48xf32>, %a: tensor<48x8xf32>, %b: tensor<64x8xf32>) -> tensor<4x48xf32> {
  cf.br ^bb2
^bb1:
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%ab : tensor<48x64xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x64xf32>, tensor<48x64xf32>) outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
^bb2:
  %i = tensor.empty() : tensor<48x64xf32>
  %z = arith.constant 0.0 : f32
  %i0 = linalg.fill ins(%z : f32) outs(%i : tensor<48x64xf32>) -> tensor<48x64xf32>
  %ab = linalg.matmul indexing_maps = [#x, #w, #y] ins(%a, %b : tensor<48x8xf32>, tensor<64x8xf32>)
      outs(%i0 : tensor<48x64xf32>) -> tensor<48x64xf32>
  cf.br ^bb1
}

// -----

// A slice across the seam of a concatenation.

// CHECK: remark: [Passed] fused | {{.*}} Function=slice_of_concat |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @slice_of_concat(%x: tensor<4x32xf32>, %q: tensor<10x32xi8>, %q2: tensor<7x32xi8>, %s: tensor<12xf32>,
    %init: tensor<4x12xf32>) -> tensor<4x12xf32> {
  %cc = tensor.concat dim(0) %q, %q2 : (tensor<10x32xi8>, tensor<7x32xi8>) -> tensor<17x32xi8>
  %sl = tensor.extract_slice %cc[2, 0] [12, 32] [1, 1] : tensor<17x32xi8> to tensor<12x32xi8>
  %e = tensor.empty() : tensor<12x32xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%sl, %s : tensor<12x32xi8>, tensor<12xf32>) outs(%e : tensor<12x32xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<12x32xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x32xf32>, tensor<12x32xf32>) outs(%init : tensor<4x12xf32>) -> tensor<4x12xf32>
  return %y : tensor<4x12xf32>
}

// -----

// Pieces along the sum.

// CHECK: remark: [Passed] fused | {{.*}} Function=concat_along_k |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @concat_along_k(%x: tensor<4x32xf32>, %q: tensor<12x10xi8>, %q2: tensor<12x22xi8>, %s: tensor<12xf32>,
    %init: tensor<4x12xf32>) -> tensor<4x12xf32> {
  %cc = tensor.concat dim(1) %q, %q2 : (tensor<12x10xi8>, tensor<12x22xi8>) -> tensor<12x32xi8>
  %e = tensor.empty() : tensor<12x32xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%cc, %s : tensor<12x32xi8>, tensor<12xf32>) outs(%e : tensor<12x32xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<12x32xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x32xf32>, tensor<12x32xf32>) outs(%init : tensor<4x12xf32>) -> tensor<4x12xf32>
  return %y : tensor<4x12xf32>
}

// -----

// The second insertion writes over a part of the first.

// CHECK: remark: [Passed] fused | {{.*}} Function=insert_chain |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @insert_chain(%x: tensor<4x32xf32>, %q: tensor<4x32xi8>, %q2: tensor<5x32xi8>, %b: tensor<12x32xi8>,
    %s: tensor<12xf32>, %init: tensor<4x12xf32>) -> tensor<4x12xf32> {
  %c1 = tensor.insert_slice %q into %b[1, 0] [4, 32] [1, 1] : tensor<4x32xi8> into tensor<12x32xi8>
  %cc = tensor.insert_slice %q2 into %c1[3, 0] [5, 32] [1, 1] : tensor<5x32xi8> into tensor<12x32xi8>
  %e = tensor.empty() : tensor<12x32xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%cc, %s : tensor<12x32xi8>, tensor<12xf32>) outs(%e : tensor<12x32xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<12x32xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x32xf32>, tensor<12x32xf32>) outs(%init : tensor<4x12xf32>) -> tensor<4x12xf32>
  return %y : tensor<4x12xf32>
}

// -----

// Padding on all sides.

// CHECK: remark: [Passed] fused | {{.*}} Function=pad_weight |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @pad_weight(%x: tensor<4x32xf32>, %q: tensor<9x27xi8>, %s: tensor<12xf32>, %init: tensor<4x12xf32>)
    -> tensor<4x12xf32> {
  %z = arith.constant 3 : i8
  %cc = tensor.pad %q low[1, 2] high[2, 3] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : i8
  } : tensor<9x27xi8> to tensor<12x32xi8>
  %e = tensor.empty() : tensor<12x32xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%cc, %s : tensor<12x32xi8>, tensor<12xf32>) outs(%e : tensor<12x32xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<12x32xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x32xf32>, tensor<12x32xf32>) outs(%init : tensor<4x12xf32>) -> tensor<4x12xf32>
  return %y : tensor<4x12xf32>
}

// -----

// Padding with a value that is an argument.

// CHECK: remark: [Passed] fused | {{.*}} Function=pad_by_argument |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @pad_by_argument(%x: tensor<4x32xf32>, %q: tensor<9x27xi8>, %z: i8, %s: tensor<12xf32>,
    %init: tensor<4x12xf32>) -> tensor<4x12xf32> {
  %cc = tensor.pad %q low[1, 2] high[2, 3] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : i8
  } : tensor<9x27xi8> to tensor<12x32xi8>
  %e = tensor.empty() : tensor<12x32xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%cc, %s : tensor<12x32xi8>, tensor<12xf32>) outs(%e : tensor<12x32xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<12x32xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x32xf32>, tensor<12x32xf32>) outs(%init : tensor<4x12xf32>) -> tensor<4x12xf32>
  return %y : tensor<4x12xf32>
}

// -----

// The padded value computes an index that is in bounds inside only.

// CHECK: remark: [Passed] fused | {{.*}} Function=gather_under_pad |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @gather_under_pad(%x: tensor<4x32xf32>, %q: tensor<16x32xi8>, %s: tensor<32xf32>, %t: tensor<16xf32>,
    %init: tensor<4x32xf32>) -> tensor<4x32xf32> {
  %e = tensor.empty() : tensor<16x32xf32>
  %w0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<16x32xi8>) outs(%e : tensor<16x32xf32>) {
  ^bb0(%in: i8, %o: f32):
    %i = linalg.index 0 : index
    %ii = arith.muli %i, %i : index
    %c16 = arith.constant 16 : index
    %r = arith.remui %ii, %c16 : index
    %v = tensor.extract %t[%r] : tensor<16xf32>
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %v : f32
    linalg.yield %m : f32
  } -> tensor<16x32xf32>
  %z = arith.constant 3.0 : f32
  %cc = tensor.pad %w0 low[16, 0] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f32
  } : tensor<16x32xf32> to tensor<32x32xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %cc : tensor<4x32xf32>, tensor<32x32xf32>) outs(%init : tensor<4x32xf32>) -> tensor<4x32xf32>
  return %y : tensor<4x32xf32>
}

// -----

// Columns of two halves take turns.

// CHECK: remark: [Passed] fused | {{.*}} Function=interleave |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @interleave(%x: tensor<4x32xf32>, %q: tensor<12x16xi8>, %q2: tensor<12x16xi8>, %s: tensor<12xf32>,
    %init: tensor<4x12xf32>) -> tensor<4x12xf32> {
  %b = tensor.empty() : tensor<12x32xi8>
  %c1 = tensor.insert_slice %q into %b[0, 0] [12, 16] [1, 2] : tensor<12x16xi8> into tensor<12x32xi8>
  %cc = tensor.insert_slice %q2 into %c1[0, 1] [12, 16] [1, 2] : tensor<12x16xi8> into tensor<12x32xi8>
  %e = tensor.empty() : tensor<12x32xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%cc, %s : tensor<12x32xi8>, tensor<12xf32>) outs(%e : tensor<12x32xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<12x32xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x32xf32>, tensor<12x32xf32>) outs(%init : tensor<4x12xf32>) -> tensor<4x12xf32>
  return %y : tensor<4x12xf32>
}

// -----

// Two summed dims, in another order than the weight's.

// CHECK: remark: [Passed] fused | {{.*}} Function=two_reductions |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @two_reductions(%x: tensor<4x8x8xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>,
    %init: tensor<4x48xf32>) -> tensor<4x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %w3 = tensor.expand_shape %w [[0], [1, 2]] output_shape [48, 8, 8] : tensor<48x64xf32> into tensor<48x8x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, j, k) -> (m, k, j)>, affine_map<(m, n, j, k)
      -> (n, j, k)>, affine_map<(m, n, j, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%x,
      %w3 : tensor<4x8x8xf32>, tensor<48x8x8xf32>) outs(%init : tensor<4x48xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %r = arith.addf %o, %p : f32
    linalg.yield %r : f32
  } -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// The first operand cannot be fused; the second is.

// CHECK: remark: [Missed] not-factorable | {{.*}} Function=second_operand_only |
// CHECK: remark: [Passed] fused | {{.*}} Function=second_operand_only |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 29
func.func @second_operand_only(%a: tensor<3x32xi32>, %q: tensor<24x64xi8>, %s: tensor<24xf32>,
    %init: tensor<20x24xf32>) -> tensor<20x24xf32> {
  %e0 = tensor.empty() : tensor<20x64xf32>
  %l = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0 floordiv 8, d1 floordiv 2)>, #id],
      iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<3x32xi32>) outs(%e0 : tensor<20x64xf32>) {
  ^bb0(%in: i32, %o: f32):
    %c = arith.sitofp %in : i32 to f32
    linalg.yield %c : f32
  } -> tensor<20x64xf32>
  %e = tensor.empty() : tensor<24x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<24x64xi8>, tensor<24xf32>) outs(%e : tensor<24x64xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<24x64xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%l, %w : tensor<20x64xf32>, tensor<24x64xf32>) outs(%init : tensor<20x24xf32>) -> tensor<20x24xf32>
  return %y : tensor<20x24xf32>
}

// -----

// 16-bit storage is not exact in f16.

// CHECK: remark: [Missed] not-traceable | {{.*}} Function=dcast_f16_from_u16 |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @dcast_f16_from_u16(%x: tensor<4x6xf16>, %q: tensor<5x6xi16>, %init: tensor<4x5xf16>) -> tensor<4x5xf16> {
  %z = quant.scast %q : tensor<5x6xi16> to tensor<5x6x!quant.uniform<u16:f16, 0.001:65000>>
  %w = quant.dcast %z : tensor<5x6x!quant.uniform<u16:f16, 0.001:65000>> to tensor<5x6xf16>
  %y = linalg.matmul indexing_maps = [#x, #w, #y] ins(%x, %w : tensor<4x6xf16>, tensor<5x6xf16>)
      outs(%init : tensor<4x5xf16>) -> tensor<4x5xf16>
  return %y : tensor<4x5xf16>
}

// -----

// The contraction is in a branch.

// CHECK: remark: [Passed] fused | {{.*}} Function=in_region |
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @in_region(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>, %init: tensor<4x48xf32>,
    %cond: i1) -> tensor<4x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %r = scf.if %cond -> tensor<4x48xf32> {
    %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x64xf32>, tensor<48x64xf32>) outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
    scf.yield %y : tensor<4x48xf32>
  } else {
    scf.yield %init : tensor<4x48xf32>
  }
  return %r : tensor<4x48xf32>
}

// -----

// The weight comes from a buffer.

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @memref_leaf(%x: tensor<4x64xf32>, %mem: memref<48x64xi8>, %s: tensor<48xf32>, %init: tensor<4x48xf32>)
    -> tensor<4x48xf32> {
  %q = bufferization.to_tensor %mem : memref<48x64xi8> to tensor<48x64xi8>
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %sc: f32, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    %m = arith.mulf %c, %sc : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.matmul indexing_maps = [#x, #w, #y]
      ins(%x, %w : tensor<4x64xf32>, tensor<48x64xf32>) outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// Buffers are left alone.

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 20
func.func @memrefs(%x: memref<4x64xf32>, %q: memref<48x64xi8>, %w: memref<48x64xf32>, %init: memref<4x48xf32>) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : memref<48x64xi8>) outs(%w : memref<48x64xf32>) {
  ^bb0(%in: i8, %o: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  }
  linalg.matmul indexing_maps = [#x, #w, #y] ins(%x, %w : memref<4x64xf32>, memref<48x64xf32>)
      outs(%init : memref<4x48xf32>)
  return
}

// -----

// A codebook inside a private function is copied to where it is read.

// CHECK: remark: [Passed] fused | {{.*}} Function=codebook_in_callee |
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func private @dequantize_by_table(%q: tensor<2x4xi8>) -> tensor<2x4xf32> {
  %table = arith.constant dense<[0.5, -1.0, 2.0, 3.5]> : tensor<4xf32>
  %e = tensor.empty() : tensor<2x4xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<2x4xi8>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%in: i8, %out: f32):
    %i = arith.index_castui %in : i8 to index
    %v = tensor.extract %table[%i] : tensor<4xf32>
    linalg.yield %v : f32
  } -> tensor<2x4xf32>
  return %w : tensor<2x4xf32>
}
func.func @codebook_in_callee(%x: tensor<4x5xf32>, %i: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %q = arith.constant dense<[[1, 2, 0, 3], [3, 0, 3, 1]]> : tensor<2x4xi8>
  %w = call @dequantize_by_table(%q) : (tensor<2x4xi8>) -> tensor<2x4xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x4xf32>, tensor<4x5xf32>) outs(%i : tensor<2x5xf32>) -> tensor<2x5xf32>
  return %y : tensor<2x5xf32>
}
