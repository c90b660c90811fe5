// What stays, and why: the module is not changed at all, dead ops and duplicate
// constants included.

// RUN: qtranspose-opt %s --split-input-file -o %t.before
// RUN: qtranspose-opt %s --split-input-file --qtranspose-absorb-transposes=into-contractions=false -o %t.after
// RUN: diff %t.before %t.after
// RUN: qtranspose-opt %s --split-input-file --qtranspose-absorb-transposes=into-contractions=false -o /dev/null \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --implicit-check-not=remark:

// CHECK: remark: [Missed] layout-fixed-on-both-sides {{.*}} Function=argument_to_result | Reason="'func.return' reads it; the source is a block argument{{.*}}"
func.func @argument_to_result(%a: tensor<4x5xf32>) -> tensor<5x4xf32> {
  %dead = arith.constant 1.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 0 : index
  %e = tensor.empty() : tensor<5x4xf32>
  %t = linalg.transpose ins(%a : tensor<4x5xf32>) outs(%e : tensor<5x4xf32>) permutation = [1, 0]
  return %t : tensor<5x4xf32>
}

// -----

// CHECK: remark: [Missed] layout-fixed-on-both-sides {{.*}} Function=source_used_elsewhere | {{.*}}'func.return' reads it; {{.*}}used elsewhere too
func.func @source_used_elsewhere(%a: tensor<4x5xf32>) -> (tensor<5x4xf32>, tensor<4x5xf32>) {
  %n = math.absf %a : tensor<4x5xf32>
  %e = tensor.empty() : tensor<5x4xf32>
  %t = linalg.transpose ins(%n : tensor<4x5xf32>) outs(%e : tensor<5x4xf32>) permutation = [1, 0]
  return %t, %n : tensor<5x4xf32>, tensor<4x5xf32>
}

// -----

// One of two readers cannot: absorbing it in the other would not save the copy.

// CHECK: remark: [Missed] layout-fixed-on-both-sides {{.*}} Function=one_reader_cannot | {{.*}}'func.call' reads it
func.func private @callee(tensor<5x4xf32>)
// PITFALL 27
func.func @one_reader_cannot(%a: tensor<4x5xf32>) -> tensor<5x4xf32> {
  %e = tensor.empty() : tensor<5x4xf32>
  %t = linalg.transpose ins(%a : tensor<4x5xf32>) outs(%e : tensor<5x4xf32>) permutation = [1, 0]
  func.call @callee(%t) : (tensor<5x4xf32>) -> ()
  %r = linalg.exp ins(%t : tensor<5x4xf32>) outs(%e : tensor<5x4xf32>) -> tensor<5x4xf32>
  return %r : tensor<5x4xf32>
}

// -----

// Convolutions are named for their layouts.

// CHECK: remark: [Missed] layout-fixed-on-both-sides {{.*}} Function=convolution | {{.*}}'linalg.conv_2d_nhwc_hwcf' reads it
func.func @convolution(%a: tensor<1x3x8x8xf32>, %w: tensor<2x2x3x4xf32>, %o: tensor<1x7x7x4xf32>) -> tensor<1x7x7x4xf32> {
  %e = tensor.empty() : tensor<1x8x8x3xf32>
  %t = linalg.transpose ins(%a : tensor<1x3x8x8xf32>) outs(%e : tensor<1x8x8x3xf32>) permutation = [0, 2, 3, 1]
  %r = linalg.conv_2d_nhwc_hwcf ins(%t, %w : tensor<1x8x8x3xf32>, tensor<2x2x3x4xf32>) outs(%o : tensor<1x7x7x4xf32>) -> tensor<1x7x7x4xf32>
  return %r : tensor<1x7x7x4xf32>
}

// -----

// As an accumulator it is written over.

// CHECK: remark: [Missed] layout-fixed-on-both-sides {{.*}} Function=accumulator | {{.*}}'linalg.matmul' takes it as its outs operand
func.func @accumulator(%a: tensor<7x5xf32>, %x: tensor<5x3xf32>, %y: tensor<3x7xf32>) -> tensor<5x7xf32> {
  %e = tensor.empty() : tensor<5x7xf32>
  %t = linalg.transpose ins(%a : tensor<7x5xf32>) outs(%e : tensor<5x7xf32>) permutation = [1, 0]
  %r = linalg.matmul ins(%x, %y : tensor<5x3xf32>, tensor<3x7xf32>) outs(%t : tensor<5x7xf32>) -> tensor<5x7xf32>
  return %r : tensor<5x7xf32>
}

// -----

// CHECK: remark: [Missed] layout-fixed-on-both-sides {{.*}} Function=contraction | {{.*}}'linalg.matmul' reads it, and `into-contractions` is off
func.func @contraction(%a: tensor<7x5xf32>, %b: tensor<7x3xf32>, %o: tensor<5x3xf32>) -> tensor<5x3xf32> {
  %e = tensor.empty() : tensor<5x7xf32>
  %t = linalg.transpose ins(%a : tensor<7x5xf32>) outs(%e : tensor<5x7xf32>) permutation = [1, 0]
  %r = linalg.matmul ins(%t, %b : tensor<5x7xf32>, tensor<7x3xf32>) outs(%o : tensor<5x3xf32>) -> tensor<5x3xf32>
  return %r : tensor<5x3xf32>
}

// -----

// A result that is written elsewhere by name.

// CHECK: remark: [Missed] library-call {{.*}} Function=library_call |
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @library_call(%a: tensor<4x5xf32>) -> tensor<5x4xf32> {
  %e = tensor.empty() : tensor<5x4xf32>
  %t = linalg.transpose ins(%a : tensor<4x5xf32>) outs(%e : tensor<5x4xf32>) permutation = [1, 0]
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"], library_call = "negate"}
      ins(%t : tensor<5x4xf32>) outs(%e : tensor<5x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %n = arith.negf %in : f32
    linalg.yield %n : f32
  } -> tensor<5x4xf32>
  return %r : tensor<5x4xf32>
}

// -----

// CHECK: remark: [Missed] tensor-encoding {{.*}} Function=encoding |
// PITFALL 21
func.func @encoding(%a: tensor<4x5xf32, "blocked">) -> tensor<5x4xf32> {
  %e = tensor.empty() : tensor<5x4xf32>
  %t = linalg.transpose ins(%a : tensor<4x5xf32, "blocked">) outs(%e : tensor<5x4xf32>) permutation = [1, 0]
  %r = math.absf %t : tensor<5x4xf32>
  return %r : tensor<5x4xf32>
}

// -----

// CHECK: remark: [Missed] discardable-attribute {{.*}} Function=attribute | {{.*}}'user.note'
func.func @attribute(%a: tensor<4x5xf32>) -> tensor<5x4xf32> {
  %e = tensor.empty() : tensor<5x4xf32>
  %t = linalg.transpose ins(%a : tensor<4x5xf32>) outs(%e : tensor<5x4xf32>) permutation = [1, 0] {user.note = 1}
  %r = math.absf %t : tensor<5x4xf32>
  return %r : tensor<5x4xf32>
}

// -----

// CHECK: remark: [Missed] memref-operands {{.*}} Function=memrefs |
// PITFALL 20
func.func @memrefs(%a: memref<4x5xf32>, %b: memref<5x4xf32>) {
  linalg.transpose ins(%a : memref<4x5xf32>) outs(%b : memref<5x4xf32>) permutation = [1, 0]
  return
}

// -----

// CHECK: remark: [Missed] no-users {{.*}} Function=dead |
func.func @dead(%a: tensor<4x5xf32>) {
  %e = tensor.empty() : tensor<5x4xf32>
  %t = linalg.transpose ins(%a : tensor<4x5xf32>) outs(%e : tensor<5x4xf32>) permutation = [1, 0]
  return
}

// -----

// The groups of the reader's reshape and of the slice do not meet.

// CHECK: remark: [Missed] not-factorable {{.*}} Function=not_factorable |
// PITFALL 13
func.func @not_factorable(%a: tensor<5x6xf32>) -> tensor<3x8xf32> {
  %e = tensor.empty() : tensor<6x5xf32>
  %t = linalg.transpose ins(%a : tensor<5x6xf32>) outs(%e : tensor<6x5xf32>) permutation = [1, 0]
  %c = tensor.collapse_shape %t [[0, 1]] : tensor<6x5xf32> into tensor<30xf32>
  %s = tensor.extract_slice %c[3] [24] [1] : tensor<30xf32> to tensor<24xf32>
  %x = tensor.expand_shape %s [[0, 1]] output_shape [3, 8] : tensor<24xf32> into tensor<3x8xf32>
  %f = tensor.empty() : tensor<3x8xf32>
  %r = linalg.exp ins(%x : tensor<3x8xf32>) outs(%f : tensor<3x8xf32>) -> tensor<3x8xf32>
  return %r : tensor<3x8xf32>
}

// -----

// A slice of a size that is only known at run time is not its source.

// CHECK: remark: [Missed] layout-fixed-on-both-sides {{.*}} Function=dynamic_slice |
func.func @dynamic_slice(%a: tensor<?x4xf32>, %m: index, %n: index) -> tensor<?x4xf32> {
  %e = tensor.empty(%m) : tensor<4x?xf32>
  %t = linalg.transpose ins(%a : tensor<?x4xf32>) outs(%e : tensor<4x?xf32>) permutation = [1, 0]
  %s = tensor.extract_slice %t[0, 0] [4, %n] [1, 1] : tensor<4x?xf32> to tensor<4x?xf32>
  %f = tensor.empty(%n) : tensor<?x4xf32>
  %u = linalg.transpose ins(%s : tensor<4x?xf32>) outs(%f : tensor<?x4xf32>) permutation = [1, 0]
  return %u : tensor<?x4xf32>
}
// CHECK: remark: [Missed] layout-fixed-on-both-sides {{.*}} Function=dynamic_slice |
