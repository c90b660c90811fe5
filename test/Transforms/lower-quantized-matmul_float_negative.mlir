// With `allow-reassociation`: a refusal has a name, and leaves the module byte-identical: dead ops and duplicate constants included.

// RUN: qtranspose-opt %s --split-input-file -o %t.before
// RUN: qtranspose-opt %s --split-input-file --qtranspose-lower-quantized-matmul=allow-reassociation -o %t.after \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --implicit-check-not=remark:
// RUN: diff %t.before %t.after

// A scale per row of the weight.

// CHECK: remark: [Missed] scale-along-reduction | {{.*}} Function=scale_along_sum |
#a = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#z = affine_map<(m, n, k) -> (k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @scale_along_sum(%a: tensor<3x2xi8>, %w: tensor<2x4xi8>, %z: tensor<2xf32>, %init: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %y = linalg.generic {indexing_maps = [#a, #w, #z, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %w, %z : tensor<3x2xi8>, tensor<2x4xi8>, tensor<2xf32>) outs(%init : tensor<3x4xf32>) {
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

// A zero point between integers.

// CHECK: remark: [Missed] zero-point-not-an-integer | {{.*}} Function=float_zero |
#a = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#z = affine_map<(m, n, k) -> (n)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @float_zero(%a: tensor<3x2xi8>, %w: tensor<2x4xi8>, %z: tensor<4xf32>, %init: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %y = linalg.generic {indexing_maps = [#a, #w, #z, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %w, %z : tensor<3x2xi8>, tensor<2x4xi8>, tensor<4xf32>) outs(%init : tensor<3x4xf32>) {
  ^bb0(%x: i8, %q: i8, %p: f32, %sum: f32):
    %xf = arith.sitofp %x : i8 to f32
    %qf = arith.sitofp %q : i8 to f32
    %d = arith.subf %qf, %p : f32
    %m = arith.mulf %xf, %d : f32
    %s = arith.addf %sum, %m : f32
    linalg.yield %s : f32
  } -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}

// -----

// Only the weight is quantized.

// CHECK: remark: [Missed] activation-not-quantized | {{.*}} Function=float_activation |
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @float_activation(%x: tensor<3x2xf32>, %q: tensor<2x4xi8>, %init: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %e = tensor.empty() : tensor<2x4xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<2x4xi8>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%in: i8, %out: f32):
    %f = arith.sitofp %in : i8 to f32
    linalg.yield %f : f32
  } -> tensor<2x4xf32>
  %y = linalg.matmul ins(%x, %w : tensor<3x2xf32>, tensor<2x4xf32>) outs(%init : tensor<3x4xf32>) -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}
