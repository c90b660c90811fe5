// `matvec-only` refuses by name, and leaves the module byte-identical.

// RUN: qtranspose-opt %s --split-input-file -o %t.before
// RUN: qtranspose-opt %s --split-input-file --qtranspose-fold-transpose-into-dequant=matvec-only -o %t.after
// RUN: diff %t.before %t.after
// RUN: qtranspose-opt %s --split-input-file --qtranspose-fold-transpose-into-dequant=matvec-only -o /dev/null \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --implicit-check-not=remark:

// CHECK: remark: [Missed] row-count-not-static | {{.*}} Function=dynamic_rows |
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @dynamic_rows(%x: tensor<?x5xf32>, %q: tensor<3x5xi8>, %acc: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<?x5xf32>, tensor<5x3xf32>) outs(%acc : tensor<?x3xf32>) -> tensor<?x3xf32>
  return %y : tensor<?x3xf32>
}

// -----

// CHECK: remark: [Missed] more-than-one-row | {{.*}} Function=two_rows |
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @two_rows(%x: tensor<2x5xf32>, %q: tensor<3x5xi8>, %acc: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<2x5xf32>, tensor<5x3xf32>) outs(%acc : tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// CHECK: remark: [Missed] lhs-rank-below-two | {{.*}} Function=vector_lhs |
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @vector_lhs(%x: tensor<5xf32>, %q: tensor<3x5xi8>, %acc: tensor<3xf32>) -> tensor<3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %y = linalg.vecmat ins(%x, %t : tensor<5xf32>, tensor<5x3xf32>) outs(%acc : tensor<3xf32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// -----

// CHECK: remark: [Missed] weight-on-the-left | {{.*}} Function=left |
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @left(%x: tensor<3x1xf32>, %q: tensor<3x5xi8>, %acc: tensor<5x1xf32>) -> tensor<5x1xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%t, %x : tensor<5x3xf32>, tensor<3x1xf32>) outs(%acc : tensor<5x1xf32>) -> tensor<5x1xf32>
  return %y : tensor<5x1xf32>
}

// -----

// CHECK: remark: [Missed] not-a-contraction | {{.*}} Function=not_contracted |
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @not_contracted(%q: tensor<3x5xi8>) -> tensor<5x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}

// -----

// CHECK: remark: [Missed] weight-not-2d | {{.*}} Function=cube |
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @cube(%x: tensor<2x1x5xf32>, %q: tensor<2x3x5xi8>, %acc: tensor<2x1x3xf32>) -> tensor<2x1x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<2x3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q : tensor<2x3x5xi8>) outs(%e : tensor<2x3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<2x3x5xf32>
  %f = tensor.empty() : tensor<2x5x3xf32>
  %t = linalg.transpose ins(%w : tensor<2x3x5xf32>) outs(%f : tensor<2x5x3xf32>) permutation = [0, 2, 1]
  %y = linalg.batch_matmul ins(%x, %t : tensor<2x1x5xf32>, tensor<2x5x3xf32>) outs(%acc : tensor<2x1x3xf32>) -> tensor<2x1x3xf32>
  return %y : tensor<2x1x3xf32>
}

// -----

// CHECK: remark: [Missed] row-count-not-static | {{.*}} Function=stored |
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @stored(%x: tensor<?x5xf32>, %q: tensor<3x5xi8>, %acc: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %f = tensor.empty() : tensor<5x3xi8>
  %t = linalg.transpose ins(%q : tensor<3x5xi8>) outs(%f : tensor<5x3xi8>) permutation = [1, 0]
  %e = tensor.empty() : tensor<5x3xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%t : tensor<5x3xi8>) outs(%e : tensor<5x3xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<5x3xf32>
  %y = linalg.matmul ins(%x, %w : tensor<?x5xf32>, tensor<5x3xf32>) outs(%acc : tensor<?x3xf32>) -> tensor<?x3xf32>
  return %y : tensor<?x3xf32>
}

// -----

// CHECK: remark: [Missed] not-a-dequantization | {{.*}} Function=plain |
func.func @plain(%x: tensor<1x5xf32>, %w: tensor<3x5xf32>, %acc: tensor<1x3xf32>) -> tensor<1x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<1x5xf32>, tensor<5x3xf32>) outs(%acc : tensor<1x3xf32>) -> tensor<1x3xf32>
  return %y : tensor<1x3xf32>
}

// -----

// The policy also holds across a call.

// CHECK: remark: [Missed] row-count-not-static | {{.*}} Function=call |
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
func.func @call(%x: tensor<?x5xf32>, %q: tensor<3x5xi8>, %acc: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %w = call @dequantize(%q) : (tensor<3x5xi8>) -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<?x5xf32>, tensor<5x3xf32>) outs(%acc : tensor<?x3xf32>) -> tensor<?x3xf32>
  return %y : tensor<?x3xf32>
}
