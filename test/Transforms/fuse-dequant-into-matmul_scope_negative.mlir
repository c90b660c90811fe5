// A pass on one function may not look into another, which another thread may be rewriting.

// RUN: qtranspose-opt %s -o %t.before
// RUN: qtranspose-opt %s --pass-pipeline='builtin.module(func.func(qtranspose-fuse-dequant-into-matmul))' -o %t.after \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --implicit-check-not=remark:
// RUN: diff %t.before %t.after
// RUN: qtranspose-opt %s --qtranspose-fuse-dequant-into-matmul | FileCheck %s --check-prefix=MODULE

// CHECK: remark: [Missed] callee-out-of-scope | {{.*}} Function=caller | Reason="reads the result of 'func.call'"
// MODULE-LABEL: func.func @caller
// MODULE-NOT:     call
// MODULE:         linalg.generic
// MODULE-SAME:      tensor<6x5xi8>
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @caller(%x: tensor<4x6xf32>, %q: tensor<6x5xi8>, %init: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %w = call @dequantize(%q) : (tensor<6x5xi8>) -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}
func.func private @dequantize(%q: tensor<6x5xi8>) -> tensor<6x5xf32> {
  %ew = tensor.empty() : tensor<6x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<6x5xi8>) outs(%ew : tensor<6x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<6x5xf32>
  return %w : tensor<6x5xf32>
}
