// A refusal has a name, and leaves the module byte-identical: dead ops and duplicate constants included.

// RUN: qtranspose-opt %s -o %t.before
// RUN: qtranspose-opt %s --qtranspose-pull-scales-out-of-reduction -o %t.after \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --implicit-check-not=remark:
// RUN: diff %t.before %t.after

#x = affine_map<(d0, d1) -> (d1)>
#w = affine_map<(d0, d1) -> (d0, d1)>
#n = affine_map<(d0, d1) -> (d0)>

// CHECK: remark: [Missed] reassociation-not-allowed | {{.*}} Function=not_allowed | Reason="allow-reassociation is not set"
func.func @not_allowed(%x: tensor<64xf32>, %w: tensor<48x64xi8>, %s: tensor<48xf32>, %i: tensor<48xf32>) -> tensor<48xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %y = linalg.generic {indexing_maps = [#x, #w, #n, #n], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w, %s : tensor<64xf32>, tensor<48x64xi8>, tensor<48xf32>) outs(%i : tensor<48xf32>) {
  ^bb0(%a: f32, %q: i8, %scale: f32, %acc: f32):
    %f = arith.sitofp %q : i8 to f32
    %d = arith.mulf %f, %scale : f32
    %p = arith.mulf %a, %d : f32
    %sum = arith.addf %acc, %p : f32
    linalg.yield %sum : f32
  } -> tensor<48xf32>
  return %y : tensor<48xf32>
}

// CHECK: remark: [Missed] reassociation-not-allowed | {{.*}} Function=narrow | Reason="excess-precision is not set"
func.func @narrow(%x: tensor<64xf16>, %w: tensor<48x64xi8>, %s: tensor<48xf16>, %i: tensor<48xf16>) -> tensor<48xf16> {
  %y = linalg.generic {indexing_maps = [#x, #w, #n, #n], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w, %s : tensor<64xf16>, tensor<48x64xi8>, tensor<48xf16>) outs(%i : tensor<48xf16>) {
  ^bb0(%a: f16, %q: i8, %scale: f16, %acc: f16):
    %f = arith.sitofp %q : i8 to f16
    %d = arith.mulf %f, %scale : f16
    %p = arith.mulf %a, %d : f16
    %sum = arith.addf %acc, %p : f16
    linalg.yield %sum : f16
  } -> tensor<48xf16>
  return %y : tensor<48xf16>
}

// CHECK: remark: [Missed] sum-not-separable | {{.*}} Function=position | Reason="the body depends on the position of the element"
func.func @position(%x: tensor<64xf32>, %w: tensor<48x64xi32>, %s: tensor<48xf32>, %i: tensor<48xf32>) -> tensor<48xf32> {
  %y = linalg.generic {indexing_maps = [#x, #w, #n, #n], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w, %s : tensor<64xf32>, tensor<48x64xi32>, tensor<48xf32>) outs(%i : tensor<48xf32>) {
  ^bb0(%a: f32, %q: i32, %scale: f32, %acc: f32):
    %k = linalg.index 1 : index
    %k32 = arith.index_cast %k : index to i32
    %v = arith.shrui %q, %k32 : i32
    %f = arith.sitofp %v : i32 to f32
    %d = arith.mulf %f, %scale : f32
    %p = arith.mulf %a, %d : f32
    %sum = arith.addf %acc, %p : f32
    linalg.yield %sum : f32
  } -> tensor<48xf32>
  return %y : tensor<48xf32>
}

// What is added once per term, of which there are not known how many, is no scale of a sum over them.

// CHECK: remark: [Missed] sum-not-separable | {{.*}} Function=dynamic | Reason="the number of equal terms is not static"
func.func @dynamic(%x: tensor<?xf32>, %w: tensor<48x?xi8>, %s: tensor<48xf32>, %b: tensor<48xf32>, %i: tensor<48xf32>) -> tensor<48xf32> {
  %y = linalg.generic {indexing_maps = [#x, #w, #n, #n, #n], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w, %s, %b : tensor<?xf32>, tensor<48x?xi8>, tensor<48xf32>, tensor<48xf32>) outs(%i : tensor<48xf32>) {
  ^bb0(%a: f32, %q: i8, %scale: f32, %bias: f32, %acc: f32):
    %f = arith.sitofp %q : i8 to f32
    %d = arith.mulf %f, %scale : f32
    %p = arith.mulf %a, %d : f32
    %t = arith.addf %p, %bias : f32
    %sum = arith.addf %acc, %t : f32
    linalg.yield %sum : f32
  } -> tensor<48xf32>
  return %y : tensor<48xf32>
}

// No scale: nothing is asked for.
func.func @plain(%x: tensor<4x64xf32>, %w: tensor<64x48xf32>, %i: tensor<4x48xf32>) -> tensor<4x48xf32> {
  %y = linalg.matmul ins(%x, %w : tensor<4x64xf32>, tensor<64x48xf32>) outs(%i : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}
