// A refusal has a name, and leaves the module byte-identical: dead ops and duplicate constants included.

// RUN: qtranspose-opt %s -o %t.before
// RUN: qtranspose-opt %s --qtranspose-vectorize-contractions -o %t.after \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --implicit-check-not=remark:
// RUN: diff %t.before %t.after

// Only the sum is contiguous, and its order is to be kept.

// CHECK: remark: [Missed] not-vectorizable | {{.*}} Function=contiguous_sum | Reason="no dim is contiguous in the operands that have it"
func.func @contiguous_sum(%w: tensor<48x64xf32>, %x: tensor<64xf32>, %i: tensor<48xf32>) -> tensor<48xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %y = linalg.matvec ins(%w, %x : tensor<48x64xf32>, tensor<64xf32>) outs(%i : tensor<48xf32>) -> tensor<48xf32>
  return %y : tensor<48xf32>
}

// CHECK: remark: [Missed] not-vectorizable | {{.*}} Function=window | Reason="an indexing map is not a projected permutation"
func.func @window(%x: tensor<64xf32>, %w: tensor<3xf32>, %i: tensor<62xf32>) -> tensor<62xf32> {
  %y = linalg.conv_1d ins(%x, %w : tensor<64xf32>, tensor<3xf32>) outs(%i : tensor<62xf32>) -> tensor<62xf32>
  return %y : tensor<62xf32>
}

// CHECK: remark: [Missed] not-vectorizable | {{.*}} Function=control_flow | Reason="the body has an op that does not work on vectors"
func.func @control_flow(%x: tensor<64x48xf32>, %i: tensor<48xf32>) -> tensor<48xf32> {
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0)>],
                       iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x48xf32>) outs(%i : tensor<48xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %zero = arith.constant 0.0 : f32
    %positive = arith.cmpf ogt, %a, %zero : f32
    %v = scf.if %positive -> f32 {
      scf.yield %a : f32
    } else {
      scf.yield %zero : f32
    }
    %sum = arith.addf %acc, %v : f32
    linalg.yield %sum : f32
  } -> tensor<48xf32>
  return %y : tensor<48xf32>
}

// CHECK: remark: [Missed] not-vectorizable | {{.*}} Function=diagonal | Reason="an output is not indexed by the parallel dims"
func.func @diagonal(%x: tensor<64x48xf32>, %i: tensor<f32>) -> tensor<f32> {
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>],
                       iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<64x48xf32>) outs(%i : tensor<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %sum = arith.addf %acc, %a : f32
    linalg.yield %sum : f32
  } -> tensor<f32>
  return %y : tensor<f32>
}

// CHECK: remark: [Missed] not-vectorizable | {{.*}} Function=encoded | Reason="vectors cannot hold the elements of a tensor"
func.func @encoded(%x: tensor<4x64xf32>, %w: tensor<64x48xf32, "blocked">, %i: tensor<4x48xf32>) -> tensor<4x48xf32> {
  %y = linalg.matmul ins(%x, %w : tensor<4x64xf32>, tensor<64x48xf32, "blocked">)
      outs(%i : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}
