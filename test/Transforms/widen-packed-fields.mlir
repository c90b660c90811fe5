// Fields of bytes become fields of words; a shift becomes a factor of the activation.

// RUN: qtranspose-opt %s --split-input-file --qtranspose-widen-packed-fields | FileCheck %s

// Eight nibbles a word. The last field reaches the sign bit, so it is shifted.

#x = affine_map<(n, g, k, h, l) -> (g, k, h)>
#w = affine_map<(n, g, k, h, l) -> (n, g, k, l)>
#h = affine_map<(n, g, k, h, l) -> (h)>
#y = affine_map<(n, g, k, h, l) -> (n, g, l)>
// CHECK-DAG: #[[$ALL:.*]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
// CHECK-DAG: #[[$PART:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
// CHECK-DAG: #[[$X:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d1, d2, d5, d3)>
// CHECK-DAG: #[[$W:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2, d4)>
// CHECK-DAG: #[[$M:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d5, d3)>
// CHECK-DAG: #[[$Y:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d4)>
// CHECK-DAG: #[[$MAP:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2 * 4 + d4, d3)>
// CHECK-LABEL: func @nibbles
// CHECK-SAME: %[[X:.*]]: tensor<1x4x2xf32>, %[[I:.*]]: tensor<1x1x2xf32>
// CHECK: %[[E:.*]] = tensor.expand_shape %[[X]] {{.*}} : tensor<1x4x2xf32> into tensor<1x1x4x2xf32>
// CHECK: %[[S:.*]] = arith.constant dense<{{\[}}[1.000000e+00, 6.250000e-02], [3.906250e-03, 2.44140625E-4], [1.52587891E-5, 9.53674316E-7], [5.96046448E-8, 1.000000e+00]]> : tensor<4x2xf32>
// CHECK: %[[XS:.*]] = linalg.generic {indexing_maps = [#[[$ALL]], #[[$PART]], #[[$ALL]]]{{.*}} ins(%[[E]], %[[S]]
// CHECK:   arith.mulf
// CHECK: %[[WW:.*]] = arith.constant {qtranspose.derived = {map = #[[$MAP]], parts = 4 : i64, source_type = tensor<1x1x4x2xi8>}} dense<{{.*}}[117835268, 134678277]{{.*}}> : tensor<1x1x1x2xi32>
// CHECK: %[[B:.*]] = arith.constant dense<{{\[}}[0, 0], [0, 0], [0, 0], [0, 28]]> : tensor<4x2xi32>
// CHECK: %[[M:.*]] = arith.constant dense<{{\[}}[15, 240], [3840, 61440], [983040, 15728640], [251658240, 15]]> : tensor<4x2xi32>
// CHECK: linalg.generic {indexing_maps = [#[[$X]], #[[$W]], #[[$M]], #[[$M]], #[[$Y]]], iterator_types = ["parallel", "parallel", "reduction", "reduction", "parallel", "reduction"]}
// CHECK-SAME: ins(%[[XS]], %[[WW]], %[[B]], %[[M]] {{.*}} outs(%[[I]]
// CHECK:   arith.shrui
// CHECK:   arith.andi
// CHECK:   arith.sitofp
// CHECK:   arith.mulf
// CHECK:   arith.addf
func.func @nibbles(%x: tensor<1x4x2xf32>, %i: tensor<1x1x2xf32>) -> tensor<1x1x2xf32> {
  %c15 = arith.constant 15 : i8
  %w = arith.constant dense<[[[[4, 5], [6, 7], [6, 7], [7, 8]]]]> : tensor<1x1x4x2xi8>
  %s = arith.constant dense<[0, 4]> : tensor<2xi8>
  %y = linalg.generic {indexing_maps = [#x, #w, #h, #y],
                       iterator_types = ["parallel", "parallel", "reduction", "reduction", "parallel"]}
      ins(%x, %w, %s : tensor<1x4x2xf32>, tensor<1x1x4x2xi8>, tensor<2xi8>) outs(%i : tensor<1x1x2xf32>) {
  ^bb0(%a: f32, %q: i8, %sh: i8, %acc: f32):
    %0 = arith.shrui %q, %sh : i8
    %1 = arith.andi %0, %c15 : i8
    %2 = arith.uitofp %1 : i8 to f32
    %3 = arith.mulf %a, %2 : f32
    %4 = arith.addf %acc, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<1x1x2xf32>
  return %y : tensor<1x1x2xf32>
}

// -----

// Words already: nothing is stored anew, the shift goes.

#x = affine_map<(k, h, l) -> (k, h)>
#w = affine_map<(k, h, l) -> (k, l)>
#h = affine_map<(k, h, l) -> (h)>
#y = affine_map<(k, h, l) -> (l)>
// CHECK-LABEL: func @words
// CHECK: arith.constant dense<{{\[}}[0, 0, 0, 0, 0, 0, 0, 28]]> : tensor<1x8xi32>
func.func @words(%x: tensor<4x8xf16>, %i: tensor<2xf32>) -> tensor<2xf32> {
  %c15 = arith.constant 15 : i32
  %w = arith.constant dense<[[4, 5], [6, 7], [6, 7], [7, 8]]> : tensor<4x2xi32>
  %s = arith.constant dense<[0, 4, 8, 12, 16, 20, 24, 28]> : tensor<8xi32>
  %y = linalg.generic {indexing_maps = [#x, #w, #h, #y], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%x, %w, %s : tensor<4x8xf16>, tensor<4x2xi32>, tensor<8xi32>) outs(%i : tensor<2xf32>) {
  ^bb0(%a: f16, %q: i32, %sh: i32, %acc: f32):
    %0 = arith.shrsi %q, %sh : i32
    %1 = arith.andi %0, %c15 : i32
    %2 = arith.sitofp %1 : i32 to f32
    %x32 = arith.extf %a : f16 to f32
    %3 = arith.mulf %2, %x32 : f32
    %4 = arith.addf %acc, %3 : f32
    linalg.yield %4 : f32
  } -> tensor<2xf32>
  return %y : tensor<2xf32>
}
