// A refusal has a name, and leaves the module byte-identical: dead ops and duplicate constants included.

// RUN: qtranspose-opt %s -o %t.before
// RUN: qtranspose-opt %s --qtranspose-pack-weights=lanes=8 -o %t.after \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --implicit-check-not=remark:
// RUN: diff %t.before %t.after

// Weights that are arguments, and those that are packed, are left alone without a remark: nothing is asked for.

func.func @argument(%x: tensor<4x3xf32>, %w: tensor<3x16xf32>, %init: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %y = linalg.matmul ins(%x, %w : tensor<4x3xf32>, tensor<3x16xf32>) outs(%init : tensor<4x16xf32>) -> tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// CHECK: remark: [Missed] not-packable | {{.*}} Function=window | Reason="an operand is not indexed by single dims"
func.func @window(%x: tensor<18xf32>, %init: tensor<16xf32>) -> tensor<16xf32> {
  %w = arith.constant dense<1.0> : tensor<16x3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0 + d1)>, affine_map<(d0, d1) -> (d0, d1)>,
                                        affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w : tensor<18xf32>, tensor<16x3xf32>) outs(%init : tensor<16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %sum = arith.addf %acc, %p : f32
    linalg.yield %sum : f32
  } -> tensor<16xf32>
  return %y : tensor<16xf32>
}

// CHECK: remark: [Missed] not-packable | {{.*}} Function=encoded | Reason="the output is not a plain tensor of output dims"
func.func @encoded(%x: tensor<4x3xf32>, %init: tensor<4x16xf32, "blocked">) -> tensor<4x16xf32, "blocked"> {
  %w = arith.constant dense<1.0> : tensor<3x16xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x3xf32>, tensor<3x16xf32>)
      outs(%init : tensor<4x16xf32, "blocked">) -> tensor<4x16xf32, "blocked">
  return %y : tensor<4x16xf32, "blocked">
}
