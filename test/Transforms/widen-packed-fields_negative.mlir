// A refusal has a name, and leaves the module byte-identical: dead ops and duplicate constants included.

// RUN: qtranspose-opt %s --split-input-file -o %t.before
// RUN: qtranspose-opt %s --split-input-file --qtranspose-widen-packed-fields -o %t.after \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --implicit-check-not=remark:
// RUN: diff %t.before %t.after

#x = affine_map<(k, h, l) -> (k, h)>
#w = affine_map<(k, h, l) -> (k, l)>
#h = affine_map<(k, h, l) -> (h)>
#y = affine_map<(k, h, l) -> (l)>

// CHECK: remark: [Missed] not-widened | {{.*}} Function=argument | Reason="the weight is not a constant"
func.func @argument(%x: tensor<4x2xf32>, %w: tensor<4x2xi8>, %i: tensor<2xf32>) -> tensor<2xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %c15 = arith.constant 15 : i8
  %s = arith.constant dense<[0, 4]> : tensor<2xi8>
  %y = linalg.generic {indexing_maps = [#x, #w, #h, #y], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%x, %w, %s : tensor<4x2xf32>, tensor<4x2xi8>, tensor<2xi8>) outs(%i : tensor<2xf32>) {
  ^bb0(%a: f32, %q: i8, %sh: i8, %acc: f32):
    %0 = arith.shrui %q, %sh : i8
    %1 = arith.andi %0, %c15 : i8
    %2 = arith.uitofp %1 : i8 to f32
    %3 = arith.mulf %a, %2 : f32
    %4 = arith.addf %acc, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// CHECK: remark: [Missed] not-widened | {{.*}} Function=ragged | Reason="the summed dim beside the lanes does not fill words"
func.func @ragged(%x: tensor<3x2xf32>, %i: tensor<2xf32>) -> tensor<2xf32> {
  %c15 = arith.constant 15 : i8
  %w = arith.constant dense<[[4, 5], [6, 7], [6, 7]]> : tensor<3x2xi8>
  %s = arith.constant dense<[0, 4]> : tensor<2xi8>
  %y = linalg.generic {indexing_maps = [#x, #w, #h, #y], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%x, %w, %s : tensor<3x2xf32>, tensor<3x2xi8>, tensor<2xi8>) outs(%i : tensor<2xf32>) {
  ^bb0(%a: f32, %q: i8, %sh: i8, %acc: f32):
    %0 = arith.shrui %q, %sh : i8
    %1 = arith.andi %0, %c15 : i8
    %2 = arith.uitofp %1 : i8 to f32
    %3 = arith.mulf %a, %2 : f32
    %4 = arith.addf %acc, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<2xf32>
  return %y : tensor<2xf32>
}

// The arithmetic shift brings sign bits into the field.

// CHECK: remark: [Missed] not-widened | {{.*}} Function=sign | Reason="a field ends outside of its element"
func.func @sign(%x: tensor<4x2xf32>, %i: tensor<2xf32>) -> tensor<2xf32> {
  %c15 = arith.constant 15 : i8
  %w = arith.constant dense<[[4, 5], [6, 7], [6, 7], [7, 8]]> : tensor<4x2xi8>
  %s = arith.constant dense<[0, 6]> : tensor<2xi8>
  %y = linalg.generic {indexing_maps = [#x, #w, #h, #y], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%x, %w, %s : tensor<4x2xf32>, tensor<4x2xi8>, tensor<2xi8>) outs(%i : tensor<2xf32>) {
  ^bb0(%a: f32, %q: i8, %sh: i8, %acc: f32):
    %0 = arith.shrsi %q, %sh : i8
    %1 = arith.andi %0, %c15 : i8
    %2 = arith.sitofp %1 : i8 to f32
    %3 = arith.mulf %a, %2 : f32
    %4 = arith.addf %acc, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<2xf32>
  return %y : tensor<2xf32>
}
