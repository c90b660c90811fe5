// RUN: qtranspose-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(qtranspose-pack-weights{lanes=2},canonicalize)' | FileCheck %s
// RUN: qtranspose-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(qtranspose-pack-weights{lanes=8})' -o %t.once
// RUN: qtranspose-opt %t.once --split-input-file \
// RUN:   --pass-pipeline='builtin.module(qtranspose-pack-weights{lanes=8})' -o %t.twice
// RUN: diff %t.once %t.twice

// The weight and what goes with its rows become blocks of two rows; the input, which has no such dim, stays. Row 8 is
// left over.

// CHECK-DAG: #[[$ROWS:.*]] = affine_map<(d0, d1, d2) -> (d0 * 2 + d2, d1)>
// CHECK-DAG: #[[$LAST:.*]] = affine_map<(d0, d1, d2) -> (d0 + d2 + 8, d1)>
// CHECK-DAG: #[[$X:.*]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-DAG: #[[$W:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[$N:.*]] = affine_map<(d0, d1, d2) -> (d0, d2)>

#x = affine_map<(d0, d1) -> (d1)>
#w = affine_map<(d0, d1) -> (d0, d1)>
#n = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: func @matvec
// CHECK-SAME: %[[X_:.*]]: tensor<3xf32>, %[[B:.*]]: tensor<9xf32>
// CHECK-DAG: arith.constant {qtranspose.derived = {map = #[[$ROWS]], source_type = tensor<9x3xi8>{{.*}} dense<{{\[\[\[}}1, 4], [2, 5], [3, 6]], {{\[\[}}7, 10], {{.*}} : tensor<4x3x2xi8>
// CHECK-DAG: arith.constant {qtranspose.derived = {map = #[[$LAST]]{{.*}} dense<{{\[\[\[}}25], [26], [27]]]> : tensor<1x3x1xi8>
// CHECK-DAG: arith.constant {qtranspose.derived = {{.*}}> : tensor<4x2xf32>
// CHECK-DAG: tensor.expand_shape %{{.*}} {{\[\[}}0, 1]] output_shape [4, 2] : tensor<8xf32> into tensor<4x2xf32>
// CHECK: linalg.generic {indexing_maps = [#[[$X]], #[[$W]], #[[$N]], #[[$N]], #[[$N]]], iterator_types = ["parallel", "reduction", "parallel"]}
// CHECK-SAME: ins(%[[X_]], %{{.*}} : tensor<3xf32>, tensor<4x3x2xi8>, tensor<4x2xf32>, tensor<4x2xf32>)
// CHECK: tensor.insert_slice %{{.*}}[0] [8] [1] : tensor<8xf32> into tensor<9xf32>
// CHECK: linalg.generic
// CHECK-SAME: tensor<1x3x1xi8>
// CHECK: tensor.insert_slice %{{.*}}[8] [1] [1] : tensor<1xf32> into tensor<9xf32>
func.func @matvec(%x: tensor<3xf32>, %bias: tensor<9xf32>) -> tensor<9xf32> {
  %w = arith.constant dense<[[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12], [13, 14, 15], [16, 17, 18], [19, 20, 21],
                             [22, 23, 24], [25, 26, 27]]> : tensor<9x3xi8>
  %s = arith.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]> : tensor<9xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<9xf32>
  %i = linalg.fill ins(%zero : f32) outs(%e : tensor<9xf32>) -> tensor<9xf32>
  %y = linalg.generic {indexing_maps = [#x, #w, #n, #n, #n], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w, %s, %bias : tensor<3xf32>, tensor<9x3xi8>, tensor<9xf32>, tensor<9xf32>) outs(%i : tensor<9xf32>) {
  ^bb0(%a: f32, %q: i8, %scale: f32, %b: f32, %acc: f32):
    %f = arith.sitofp %q : i8 to f32
    %d = arith.mulf %f, %scale : f32
    %p = arith.mulf %a, %d : f32
    %t = arith.addf %p, %b : f32
    %sum = arith.addf %acc, %t : f32
    linalg.yield %sum : f32
  } -> tensor<9xf32>
  return %y : tensor<9xf32>
}

// -----

// What is dequantized per tile is packed too: [K, N] is read and written in blocks of lanes. A constant is seen through
// reshapes and slices.

// CHECK: #[[$WORDS:.*]] = affine_map<(d0, d1, d2) -> (d0 * 2 + d1 * 8 + d2 + 8)>
// CHECK-LABEL: func @tiles
// CHECK-SAME: %[[X_:.*]]: tensor<?x3xf32>
// CHECK: %[[Q:.*]] = arith.constant {qtranspose.derived = {map = #[[$WORDS]], {{.*}} : tensor<4x3x2xi8>
// CHECK: %[[D:.*]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<4x3x2xi8>) outs(%{{.*}} : tensor<4x3x2xf32>) {{.*}}{qtranspose.tile_fused}
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %[[D]] : tensor<?x3xf32>, tensor<4x3x2xf32>) outs(%{{.*}} : tensor<?x4x2xf32>)
// CHECK: tensor.collapse_shape %{{.*}} {{\[\[}}0], [1, 2]] : tensor<?x4x2xf32> into tensor<?x8xf32>
func.func @tiles(%x: tensor<?x3xf32>, %init: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %c = arith.constant dense_resource<words> : tensor<40xi8>
  %slice = tensor.extract_slice %c[8] [24] [1] : tensor<40xi8> to tensor<24xi8>
  %q = tensor.expand_shape %slice [[0, 1]] output_shape [3, 8] : tensor<24xi8> into tensor<3x8xi8>
  %e = tensor.empty() : tensor<3x8xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x8xi8>) outs(%e : tensor<3x8xf32>) attrs = {qtranspose.tile_fused} {
  ^bb0(%in: i8, %out: f32):
    %f = arith.sitofp %in : i8 to f32
    linalg.yield %f : f32
  } -> tensor<3x8xf32>
  %y = linalg.matmul ins(%x, %w : tensor<?x3xf32>, tensor<3x8xf32>) outs(%init : tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

{-#
  dialect_resources: {
    builtin: {
      words: "0x01000000000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F2021222324252627"
    }
  }
#-}
