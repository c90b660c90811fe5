// Refusals across a call have a name, and leave the module byte-identical.

// RUN: qtranspose-opt %s --split-input-file -o %t.before
// RUN: qtranspose-opt %s --split-input-file --qtranspose-fold-transpose-into-dequant -o %t.after
// RUN: diff %t.before %t.after
// RUN: qtranspose-opt %s --split-input-file --qtranspose-fold-transpose-into-dequant -o /dev/null \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --implicit-check-not=remark:

// A pass on one function neither reads nor changes another one.
// RUN: qtranspose-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(qtranspose-fold-transpose-into-dequant))' \
// RUN:   -o %t.nested --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=NESTED
// RUN: diff %t.before %t.nested
// NESTED-COUNT-8: remark: [Missed] callee-out-of-scope

// CHECK: remark: [Missed] callee-not-private | {{.*}} Function=public |
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @dequantize(%q: tensor<3x5xi8>) -> tensor<3x5xf32> {
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  return %w : tensor<3x5xf32>
}
func.func @public(%q: tensor<3x5xi8>) -> tensor<5x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %w = call @dequantize(%q) : (tensor<3x5xi8>) -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}

// -----

// CHECK: remark: [Missed] callee-is-external | {{.*}} Function=external |
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func private @dequantize(%q: tensor<3x5xi8>) -> tensor<3x5xf32>
func.func @external(%q: tensor<3x5xi8>) -> tensor<5x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %w = call @dequantize(%q) : (tensor<3x5xi8>) -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}

// -----

// CHECK: remark: [Missed] callee-is-recursive | {{.*}} Function=recursive |
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func private @dequantize(%q: tensor<3x5xi8>) -> tensor<3x5xf32> {
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %r = call @helper(%q) : (tensor<3x5xi8>) -> tensor<3x5xf32>
  return %w : tensor<3x5xf32>
}
func.func private @helper(%q: tensor<3x5xi8>) -> tensor<3x5xf32> {
  %r = call @dequantize(%q) : (tensor<3x5xi8>) -> tensor<3x5xf32>
  return %r : tensor<3x5xf32>
}
func.func @recursive(%q: tensor<3x5xi8>) -> tensor<5x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %w = call @dequantize(%q) : (tensor<3x5xi8>) -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}

// -----

// CHECK: remark: [Missed] callee-has-control-flow | {{.*}} Function=blocks |
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func private @dequantize(%q: tensor<3x5xi8>) -> tensor<3x5xf32> {
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  cf.br ^bb1
^bb1:
  return %w : tensor<3x5xf32>
}
func.func @blocks(%q: tensor<3x5xi8>) -> tensor<5x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %w = call @dequantize(%q) : (tensor<3x5xi8>) -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}

// -----

// CHECK: remark: [Missed] callee-has-side-effects | {{.*}} Function=effects |
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func private @dequantize(%q: tensor<3x5xi8>) -> tensor<3x5xf32> {
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %valid = arith.constant true
  cf.assert %valid, "invalid"
  return %w : tensor<3x5xf32>
}
func.func @effects(%q: tensor<3x5xi8>) -> (tensor<5x3xf32>, tensor<3x5xf32>) {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %w = call @dequantize(%q) : (tensor<3x5xi8>) -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t, %w : tensor<5x3xf32>, tensor<3x5xf32>
}

// -----

// CHECK: remark: [Missed] discardable-attribute | {{.*}} Function=attribute |
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func private @dequantize(%q: tensor<3x5xi8>) -> tensor<3x5xf32> {
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  return %w : tensor<3x5xf32>
}
func.func @attribute(%q: tensor<3x5xi8>) -> tensor<5x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %w = call @dequantize(%q) : (tensor<3x5xi8>) -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0] {tag = "w"}
  return %t : tensor<5x3xf32>
}

// -----

// CHECK: remark: [Missed] not-a-dequantization | {{.*}} Function=not_dequantized |
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func private @dequantize(%q: tensor<3x5xi8>) -> tensor<3x5xf32> {
  %w = arith.constant dense<1.0> : tensor<3x5xf32>
  return %w : tensor<3x5xf32>
}
func.func @not_dequantized(%q: tensor<3x5xi8>) -> tensor<5x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %w = call @dequantize(%q) : (tensor<3x5xi8>) -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}

// -----

// CHECK: remark: [Missed] multi-use | {{.*}} Function=wide_storage |
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func private @dequantize(%q: tensor<3x5xi32>) -> tensor<3x5xf32> {
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi32>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i32, %out: f32):
    %a = arith.sitofp %in : i32 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  return %w : tensor<3x5xf32>
}
func.func @wide_storage(%q: tensor<3x5xi32>) -> (tensor<5x3xf32>, tensor<3x5xf32>) {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %w = call @dequantize(%q) : (tensor<3x5xi32>) -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t, %w : tensor<5x3xf32>, tensor<3x5xf32>
}
