// Each refusal has a name, and leaves the module byte-identical: dead ops and duplicate constants included.

// DEFINE: %{fuse} = qtranspose-opt %s --split-input-file --allow-unregistered-dialect
// RUN: %{fuse} -o %t.before
// RUN: %{fuse} --qtranspose-fuse-dequant-into-matmul -o %t.after
// RUN: diff %t.before %t.after
// RUN: %{fuse} --qtranspose-fuse-dequant-into-matmul=decision=tile -o %t.after
// RUN: diff %t.before %t.after
// RUN: %{fuse} --qtranspose-fuse-dequant-into-matmul -o /dev/null \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --implicit-check-not=remark:

// A leaf whose encoding says something about its layout.

// CHECK: remark: [Missed] tensor-encoding | {{.*}} Function=encoded_storage | Reason="reads a block argument"
#id = affine_map<(d0, d1) -> (d0, d1)>
// PITFALL 21
func.func @encoded_storage(%x: tensor<4x6xf32>, %q: tensor<6x5xi8, "packed">, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %ew = tensor.empty() : tensor<6x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<6x5xi8, "packed">) outs(%ew : tensor<6x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// The contraction itself works on encoded tensors.

// CHECK: remark: [Missed] tensor-encoding | {{.*}} Function=encoded_activation | Reason="an operand of the contraction"
#id = affine_map<(d0, d1) -> (d0, d1)>
// PITFALL 21
func.func @encoded_activation(%x: tensor<4x6xf32, "rows">, %q: tensor<6x5xi8>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %ew = tensor.empty() : tensor<6x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<6x5xi8>) outs(%ew : tensor<6x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32, "rows">, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// An encoded tensor between the storage and the contraction.

// CHECK: remark: [Missed] tensor-encoding | {{.*}} Function=encoded_in_between | Reason="reads the result of 'linalg.generic'"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @encoded_in_between(%x: tensor<4x6xf32>, %q: tensor<6x5xi8>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %ew = tensor.empty() : tensor<6x5xf32, "rows">
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<6x5xi8>) outs(%ew : tensor<6x5xf32, "rows">) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32, "rows">
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32, "rows">) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// Nothing is known of an op of another dialect.

// CHECK: remark: [Missed] not-traceable | {{.*}} Function=unknown_op | Reason="reads the result of 'vendor.dequantize'"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @unknown_op(%x: tensor<4x6xf32>, %q: tensor<6x5xi8>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %w = "vendor.dequantize"(%q) : (tensor<6x5xi8>) -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// 32-bit storage has no exact difference from its zero point in f32.

// CHECK: remark: [Missed] not-traceable | {{.*}} Function=wide_storage | Reason="reads the result of 'quant.dcast'"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @wide_storage(%x: tensor<4x6xf32>, %q: tensor<6x5xi32>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %t = quant.scast %q : tensor<6x5xi32> to tensor<6x5x!quant.uniform<i32:f32, 0.5:1000000001>>
  %w = quant.dcast %t : tensor<6x5x!quant.uniform<i32:f32, 0.5:1000000001>> to tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// The body of the producer may do anything.

// CHECK: remark: [Missed] side-effects-in-body | {{.*}} Function=body_with_effects | Reason="reads the result of 'linalg.generic'"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @body_with_effects(%x: tensor<4x6xf32>, %q: tensor<6x5xi8>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %ew = tensor.empty() : tensor<6x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<6x5xi8>) outs(%ew : tensor<6x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    "vendor.trace"(%in) : (i8) -> ()
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// A low-rank update is merged into the weight at run time.

// CHECK: remark: [Missed] computed-at-run-time | {{.*}} Function=merged_update | Reason="reads the result of 'linalg.matmul'"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @merged_update(%x: tensor<4x6xf32>, %q: tensor<6x5xi8>, %a: tensor<6x2xf32>, %b: tensor<2x5xf32>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %ef = tensor.empty() : tensor<6x5xf32>
  %f = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<6x5xi8>) outs(%ef : tensor<6x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32>
  %m = linalg.matmul ins(%a, %b : tensor<6x2xf32>, tensor<2x5xf32>) outs(%f : tensor<6x5xf32>) -> tensor<6x5xf32>
  %w = linalg.add ins(%f, %m : tensor<6x5xf32>, tensor<6x5xf32>) outs(%ef : tensor<6x5xf32>) -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// The weight of the next iteration is not the weight of this one.

// CHECK: remark: [Missed] carried-through-control-flow | {{.*}} Function=carried_weight | Reason="reads a block argument"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @carried_weight(%x: tensor<4x6xf32>, %q: tensor<6x5xi8>, %init: tensor<4x5xf32>, %steps: index) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.for %i = %c0 to %steps step %c1 iter_args(%p = %q, %acc = %init) -> (tensor<6x5xi8>, tensor<4x5xf32>) {
  %ew = tensor.empty() : tensor<6x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<6x5xi8>) outs(%ew : tensor<6x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%acc : tensor<4x5xf32>) -> tensor<4x5xf32>
    %n = arith.subi %q, %p : tensor<6x5xi8>
    scf.yield %n, %y : tensor<6x5xi8>, tensor<4x5xf32>
  }
  return %r#1 : tensor<4x5xf32>
}

// -----

// The same through a branch.

// CHECK: remark: [Missed] carried-through-control-flow | {{.*}} Function=branched_weight | Reason="reads a block argument"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @branched_weight(%x: tensor<4x6xf32>, %q: tensor<6x5xi8>, %p: tensor<6x5xi8>, %init: tensor<4x5xf32>, %which: i1) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  cf.cond_br %which, ^bb1(%q : tensor<6x5xi8>), ^bb1(%p : tensor<6x5xi8>)
^bb1(%chosen: tensor<6x5xi8>):
  %ew = tensor.empty() : tensor<6x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%chosen : tensor<6x5xi8>) outs(%ew : tensor<6x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// Half of the weight comes from a producer whose place is decided.

// CHECK: remark: [Missed] already-decided | {{.*}} Function=decided_part | Reason="reads the result of 'linalg.generic'"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @decided_part(%x: tensor<4x6xf32>, %q: tensor<6x5xi8>, %p: tensor<6x5xi8>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %ef = tensor.empty() : tensor<6x5xf32>
  %f = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<6x5xi8>) outs(%ef : tensor<6x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32>
  %eg = tensor.empty() : tensor<6x5xf32>
  %g = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<6x5xi8>) outs(%eg : tensor<6x5xf32>) attrs = {qtranspose.tile_fused} {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32>
  %w = linalg.add ins(%f, %g : tensor<6x5xf32>, tensor<6x5xf32>) outs(%ef : tensor<6x5xf32>) -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// Which experts' rows are read is known at run time only.

// CHECK: remark: [Missed] dynamic-slice | {{.*}} Function=dynamic_rows | Reason="reads the result of 'tensor.extract_slice'"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @dynamic_rows(%x: tensor<4x6xf32>, %q: tensor<24x5xi8>, %init: tensor<4x5xf32>, %at: index) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %s = tensor.extract_slice %q[%at, 0] [6, 5] [1, 1] : tensor<24x5xi8> to tensor<6x5xi8>
  %ew = tensor.empty() : tensor<6x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%s : tensor<6x5xi8>) outs(%ew : tensor<6x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// Nor is it known how much of the stored rows a slice takes.

// CHECK: remark: [Missed] dynamic-slice | {{.*}} Function=some_rows | Reason="reads the result of 'tensor.extract_slice'"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @some_rows(%x: tensor<4x?xf32>, %q: tensor<?x5xi8>, %init: tensor<4x5xf32>, %n: index) -> tensor<4x5xf32> {
  %s = tensor.extract_slice %q[0, 0] [%n, 5] [1, 1] : tensor<?x5xi8> to tensor<?x5xi8>
  %ew = tensor.empty(%n) : tensor<?x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%s : tensor<?x5xi8>) outs(%ew : tensor<?x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<?x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x?xf32>, tensor<?x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// How long the second piece is, is not known.

// CHECK: remark: [Missed] dynamic-concat | {{.*}} Function=dynamic_pieces | Reason="reads the result of 'tensor.concat'"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @dynamic_pieces(%x: tensor<4x6xf32>, %q: tensor<6x5xi8>, %p: tensor<?x5xi8>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %b = tensor.concat dim(0) %q, %p : (tensor<6x5xi8>, tensor<?x5xi8>) -> tensor<?x5xi8>
  %s = tensor.extract_slice %b[0, 0] [6, 5] [1, 1] : tensor<?x5xi8> to tensor<6x5xi8>
  %ew = tensor.empty() : tensor<6x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%s : tensor<6x5xi8>) outs(%ew : tensor<6x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// A corner is not a band of one dim.

// CHECK: remark: [Missed] partial-insert | {{.*}} Function=corner | Reason="reads the result of 'tensor.insert_slice'"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @corner(%x: tensor<4x6xf32>, %q: tensor<6x5xi8>, %p: tensor<2x3xi8>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %s = tensor.insert_slice %p into %q[1, 1] [2, 3] [1, 1] : tensor<2x3xi8> into tensor<6x5xi8>
  %ew = tensor.empty() : tensor<6x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%s : tensor<6x5xi8>) outs(%ew : tensor<6x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// Somebody may store another weight.

// CHECK: remark: [Missed] mutable-global | {{.*}} Function=mutable_weight | Reason="reads the result of 'ml_program.global_load'"
ml_program.global private mutable @weight(dense<1> : tensor<6x5xi8>) : tensor<6x5xi8>
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @mutable_weight(%x: tensor<4x6xf32>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %q = ml_program.global_load @weight : tensor<6x5xi8>
  %ew = tensor.empty() : tensor<6x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<6x5xi8>) outs(%ew : tensor<6x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// Words of eight rows, of which the last is not full: an output dim cannot be extended.

// CHECK: remark: [Missed] not-factorable | {{.*}} Function=ragged_words | Reason="no split of the iteration dims makes a coordinate linear"
#id = affine_map<(d0, d1) -> (d0, d1)>
#words = affine_map<(d0, d1) -> (d0 floordiv 8, d1)>
#xs = affine_map<(m, n, k) -> (m, k)>
#ws = affine_map<(m, n, k) -> (n, k)>
#ys = affine_map<(m, n, k) -> (m, n)>
func.func @ragged_words(%x: tensor<4x32xf32>, %q: tensor<3x32xi32>, %init: tensor<4x20xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<20x32xf32>
  %w = linalg.generic {indexing_maps = [#words, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x32xi32>) outs(%e : tensor<20x32xf32>) {
  ^bb0(%in: i32, %out: f32):
    %n = linalg.index 0 : index
    %c8 = arith.constant 8 : index
    %r = arith.remui %n, %c8 : index
    %ri = arith.index_cast %r : index to i32
    %c4 = arith.constant 4 : i32
    %by = arith.muli %ri, %c4 : i32
    %v = arith.shrui %in, %by : i32
    %c15 = arith.constant 15 : i32
    %nibble = arith.andi %v, %c15 : i32
    %c = arith.uitofp %nibble : i32 to f32
    linalg.yield %c : f32
  } -> tensor<20x32xf32>
  %z = linalg.matmul indexing_maps = [#xs, #ws, #ys]
      ins(%x, %w : tensor<4x32xf32>, tensor<20x32xf32>) outs(%init : tensor<4x20xf32>) -> tensor<4x20xf32>
  %y = tensor.extract_slice %z[0, 0] [4, 5] [1, 1] : tensor<4x20xf32> to tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// If the sum read the leaf only, nothing would say how many terms it has.

// CHECK: remark: [Missed] not-factorable | {{.*}} Function=sum_of_broadcast | Reason="no operand has the size of an iteration dim"
#id = affine_map<(d0, d1) -> (d0, d1)>
#column = affine_map<(d0, d1) -> (d0, 0)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @sum_of_broadcast(%q: tensor<6x1xi8>, %init: tensor<6xf32>, %r: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<6x8xf32>
  %w = linalg.generic {indexing_maps = [#column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<6x1xi8>) outs(%e : tensor<6x8xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x8xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%w : tensor<6x8xf32>) outs(%init : tensor<6xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %c = arith.addf %in, %acc : f32
    linalg.yield %c : f32
  } -> tensor<6xf32>
  %c0 = arith.constant 0 : index
  %v = tensor.extract %s[%c0] : tensor<6xf32>
  %y = tensor.insert %v into %r[%c0, %c0] : tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// A result that skips elements of its init cannot be put back by a reshape.

// CHECK: remark: [Missed] not-factorable | {{.*}} Function=gaps_in_the_result | Reason="the result cannot be seen over the factored dims"
#id = affine_map<(d0, d1) -> (d0, d1)>
#xs = affine_map<(m, n, p, k) -> (m, p, k)>
#ws = affine_map<(m, n, p, k) -> (n, k)>
#ys = affine_map<(m, n, p, k) -> (m, n * 4 + p)>
func.func @gaps_in_the_result(%x: tensor<4x2x6xf32>, %q: tensor<5x6xi8>, %init: tensor<4x20xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %ew = tensor.empty() : tensor<5x6xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<5x6xi8>) outs(%ew : tensor<5x6xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<5x6xf32>
  %z = linalg.generic {indexing_maps = [#xs, #ws, #ys], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<4x2x6xf32>, tensor<5x6xf32>) outs(%init : tensor<4x20xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x20xf32>
  %y = tensor.extract_slice %z[0, 0] [4, 5] [1, 1] : tensor<4x20xf32> to tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// Constants so large that arithmetic on them could overflow.

// CHECK: remark: [Missed] expression-too-large | {{.*}} Function=far_away | Reason="reads a block argument"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @far_away(%x: tensor<4x6xf32>, %q: tensor<4398046511104x5xi8>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %s = tensor.extract_slice %q[4398046500000, 0] [6, 5] [1, 1] : tensor<4398046511104x5xi8> to tensor<6x5xi8>
  %ew = tensor.empty() : tensor<6x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%s : tensor<6x5xi8>) outs(%ew : tensor<6x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// -----

// A callee without a body.

// CHECK: remark: [Missed] callee-not-traceable | {{.*}} Function=external_callee | Reason="reads the result of 'func.call'"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @external_callee(%x: tensor<4x6xf32>, %q: tensor<6x5xi8>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %w = call @elsewhere(%q) : (tensor<6x5xi8>) -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}
func.func private @elsewhere(tensor<6x5xi8>) -> tensor<6x5xf32>

// -----

// A public callee.

// CHECK: remark: [Missed] callee-not-private | {{.*}} Function=public_callee | Reason="reads the result of 'func.call'"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @public_callee(%x: tensor<4x6xf32>, %q: tensor<6x5xi8>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %w = call @dequantize(%q) : (tensor<6x5xi8>) -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}
func.func @dequantize(%q: tensor<6x5xi8>) -> tensor<6x5xf32> {
  %ew = tensor.empty() : tensor<6x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<6x5xi8>) outs(%ew : tensor<6x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32>
  return %w : tensor<6x5xf32>
}

// -----

// A callee that reads state.

// CHECK: remark: [Missed] mutable-global | {{.*}} Function=callee_with_state | Reason="reads the result of 'func.call'"
ml_program.global private mutable @scale(dense<1.0> : tensor<6x5xf32>) : tensor<6x5xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @callee_with_state(%x: tensor<4x6xf32>, %q: tensor<6x5xi8>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %w = call @load_and_convert(%q) : (tensor<6x5xi8>) -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}
func.func private @load_and_convert(%q: tensor<6x5xi8>) -> tensor<6x5xf32> {
  %s = ml_program.global_load @scale : tensor<6x5xf32>
  %ec = tensor.empty() : tensor<6x5xf32>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<6x5xi8>) outs(%ec : tensor<6x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32>
  %w = linalg.mul ins(%c, %s : tensor<6x5xf32>, tensor<6x5xf32>) outs(%ec : tensor<6x5xf32>) -> tensor<6x5xf32>
  return %w : tensor<6x5xf32>
}

// -----

// Functions that call each other (without end, so that nobody may run them).

// CHECK: remark: [Missed] callee-is-recursive | {{.*}} Function=recursive_callee | Reason="reads the result of 'func.call'"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func private @recursive_callee(%x: tensor<4x6xf32>, %q: tensor<6x5xi8>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %w = call @even(%q) : (tensor<6x5xi8>) -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}
func.func private @even(%q: tensor<6x5xi8>) -> tensor<6x5xf32> {
  %w = call @odd(%q) : (tensor<6x5xi8>) -> tensor<6x5xf32>
  return %w : tensor<6x5xf32>
}
func.func private @odd(%q: tensor<6x5xi8>) -> tensor<6x5xf32> {
  %w = call @even(%q) : (tensor<6x5xi8>) -> tensor<6x5xf32>
  return %w : tensor<6x5xf32>
}

// -----

// An external implementation expects the operands as they are.

// CHECK: remark: [Missed] library-call | {{.*}} Function=library_call | Reason="the contraction"
#id = affine_map<(d0, d1) -> (d0, d1)>
#xs = affine_map<(m, n, k) -> (m, k)>
#ws = affine_map<(m, n, k) -> (k, n)>
#ys = affine_map<(m, n, k) -> (m, n)>
func.func @library_call(%x: tensor<4x6xf32>, %q: tensor<6x5xi8>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %ew = tensor.empty() : tensor<6x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<6x5xi8>) outs(%ew : tensor<6x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32>
  %y = linalg.generic {indexing_maps = [#xs, #ws, #ys], iterator_types = ["parallel", "parallel", "reduction"],
                       library_call = "gemm"}
      ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}
