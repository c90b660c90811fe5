// A refusal has a name, and leaves the module byte-identical: dead ops and duplicate constants included.

// RUN: qtranspose-opt %s --split-input-file -o %t.before
// RUN: qtranspose-opt %s --split-input-file --qtranspose-lower-quantized-matmul -o %t.after \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --implicit-check-not=remark:
// RUN: diff %t.before %t.after

// A sum of floats is rounded at every step.

// CHECK: remark: [Missed] reassociates-float-sum | {{.*}} Function=float_sum |
#a = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#z = affine_map<(m, n, k) -> (n)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @float_sum(%a: tensor<3x2xi8>, %w: tensor<2x4xi8>, %z: tensor<4xf32>, %init: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %y = linalg.generic {indexing_maps = [#a, #w, #z, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %w, %z : tensor<3x2xi8>, tensor<2x4xi8>, tensor<4xf32>) outs(%init : tensor<3x4xf32>) {
  ^bb0(%x: i8, %q: i8, %p: f32, %sum: f32):
    %xf = arith.sitofp %x : i8 to f32
    %qf = arith.sitofp %q : i8 to f32
    %d = arith.mulf %qf, %p : f32
    %m = arith.mulf %xf, %d : f32
    %s = arith.addf %sum, %m : f32
    linalg.yield %s : f32
  } -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// -----

// A zero point per row of the weight.

// CHECK: remark: [Missed] zero-point-along-reduction | {{.*}} Function=zero_along_sum |
#a = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#z = affine_map<(m, n, k) -> (k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @zero_along_sum(%a: tensor<3x2xi8>, %w: tensor<2x4xi8>, %z: tensor<2xi8>, %init: tensor<3x4xi32>) -> tensor<3x4xi32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %y = linalg.generic {indexing_maps = [#a, #w, #z, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %w, %z : tensor<3x2xi8>, tensor<2x4xi8>, tensor<2xi8>) outs(%init : tensor<3x4xi32>) {
  ^bb0(%x: i8, %q: i8, %p: i8, %sum: i32):
    %xw = arith.extsi %x : i8 to i32
    %qw = arith.extsi %q : i8 to i32
    %pw = arith.extsi %p : i8 to i32
    %d = arith.subi %qw, %pw : i32
    %m = arith.muli %xw, %d : i32
    %s = arith.addi %sum, %m : i32
    linalg.yield %s : i32
  } -> tensor<3x4xi32>
  return %y : tensor<3x4xi32>
}

// -----

// 33026 products of differences of up to 255 do not fit into 32 bits.

// CHECK: remark: [Missed] accumulator-may-overflow | {{.*}} Function=too_long |
#a = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#z = affine_map<(m, n, k) -> (n)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @too_long(%a: tensor<3x66052xi8>, %w: tensor<66052x4xi8>, %z: tensor<4xi8>, %init: tensor<3x4xi64>) -> tensor<3x4xi64> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %y = linalg.generic {indexing_maps = [#a, #w, #z, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %w, %z : tensor<3x66052xi8>, tensor<66052x4xi8>, tensor<4xi8>) outs(%init : tensor<3x4xi64>) {
  ^bb0(%x: i8, %q: i8, %p: i8, %sum: i64):
    %xw = arith.extsi %x : i8 to i64
    %qw = arith.extsi %q : i8 to i64
    %pw = arith.extsi %p : i8 to i64
    %d = arith.subi %qw, %pw : i64
    %m = arith.muli %xw, %d : i64
    %s = arith.addi %sum, %m : i64
    linalg.yield %s : i64
  } -> tensor<3x4xi64>
  return %y : tensor<3x4xi64>
}

// -----

// Nobody knows how many.

// CHECK: remark: [Missed] sum-length-not-static | {{.*}} Function=unknown_length |
#a = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#z = affine_map<(m, n, k) -> (n)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @unknown_length(%a: tensor<3x?xi8>, %w: tensor<?x4xi8>, %z: tensor<4xi8>, %init: tensor<3x4xi64>) -> tensor<3x4xi64> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %y = linalg.generic {indexing_maps = [#a, #w, #z, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %w, %z : tensor<3x?xi8>, tensor<?x4xi8>, tensor<4xi8>) outs(%init : tensor<3x4xi64>) {
  ^bb0(%x: i8, %q: i8, %p: i8, %sum: i64):
    %xw = arith.extsi %x : i8 to i64
    %qw = arith.extsi %q : i8 to i64
    %pw = arith.extsi %p : i8 to i64
    %d = arith.subi %qw, %pw : i64
    %m = arith.muli %xw, %d : i64
    %s = arith.addi %sum, %m : i64
    linalg.yield %s : i64
  } -> tensor<3x4xi64>
  return %y : tensor<3x4xi64>
}

// -----

// The products are taken in 32 bits, where they may wrap around, and then extended.

// CHECK: remark: [Missed] zero-point-not-bounded | {{.*}} Function=wraps |
#a = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#z = affine_map<(m, n, k) -> (n)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @wraps(%a: tensor<3x2xi8>, %w: tensor<2x4xi8>, %z: tensor<4xi32>, %init: tensor<3x4xi64>) -> tensor<3x4xi64> {
  %y = linalg.generic {indexing_maps = [#a, #w, #z, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %w, %z : tensor<3x2xi8>, tensor<2x4xi8>, tensor<4xi32>) outs(%init : tensor<3x4xi64>) {
  ^bb0(%x: i8, %q: i8, %p: i32, %sum: i64):
    %xw = arith.extsi %x : i8 to i32
    %qw = arith.extsi %q : i8 to i32
    %d = arith.subi %qw, %p : i32
    %m = arith.muli %xw, %d : i32
    %mw = arith.extsi %m : i32 to i64
    %s = arith.addi %sum, %mw : i64
    linalg.yield %s : i64
  } -> tensor<3x4xi64>
  return %y : tensor<3x4xi64>
}
