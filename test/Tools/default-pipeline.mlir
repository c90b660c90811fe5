// The pipeline by its options; each of them leaves its own output alone.

// RUN: qtranspose-opt %s --pass-pipeline='builtin.module(qtranspose-default)' -o %t.keep
// RUN: FileCheck %s --input-file=%t.keep --check-prefixes=CHECK,KEEP --implicit-check-not=linalg.transpose
// RUN: qtranspose-opt %s --pass-pipeline='builtin.module(qtranspose-default{weights=keep})' | diff %t.keep -
// RUN: qtranspose-opt %t.keep --pass-pipeline='builtin.module(qtranspose-default)' | diff %t.keep -
// RUN: qtranspose-opt %s --pass-pipeline='builtin.module(qtranspose-default{weights=right})' -o %t.right
// RUN: FileCheck %s --input-file=%t.right --check-prefixes=CHECK,RIGHT --implicit-check-not=linalg.transpose
// RUN: qtranspose-opt %t.right --pass-pipeline='builtin.module(qtranspose-default{weights=right})' | diff %t.right -

#id = affine_map<(d0, d1) -> (d0, d1)>

// CHECK-LABEL: func.func @left(
// CHECK-SAME:      %[[X:.*]]: tensor<64x4xf32>, %[[Q:.*]]: tensor<48x64xi8>
// KEEP:          linalg.generic {{.*}} ins(%[[Q]], %[[X]] :
// RIGHT:         linalg.generic {{.*}} ins(%[[X]], %[[Q]] :
// CHECK:           arith.sitofp
func.func @left(%x: tensor<64x4xf32>, %q: tensor<48x64xi8>) -> tensor<48x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<48x64xi8>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<48x64xf32>
  %f0 = tensor.empty() : tensor<48x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%f0 : tensor<48x4xf32>) -> tensor<48x4xf32>
  %y = linalg.matmul ins(%w, %x : tensor<48x64xf32>, tensor<64x4xf32>) outs(%f : tensor<48x4xf32>) -> tensor<48x4xf32>
  return %y : tensor<48x4xf32>
}
