// RUN: qtranspose-opt %s --split-input-file --qtranspose-fold-transpose-into-dequant | FileCheck %s --check-prefixes=CHECK,AUTO
// RUN: qtranspose-opt %s --split-input-file --qtranspose-fold-transpose-into-dequant=multi-use=clone | FileCheck %s --check-prefixes=CHECK,CLONE
// RUN: qtranspose-opt %s --split-input-file --qtranspose-fold-transpose-into-dequant=multi-use=read | FileCheck %s --check-prefixes=CHECK,READ

// The dequantized weight also feeds something else, as tied embeddings do. i8 bytes are cheaper than f32 bytes.

// CHECK-LABEL: func.func @root
// CHECK-SAME:    %[[Q:[^ :]+]]: tensor<3x5xi8>
// AUTO:          %[[T:.+]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<3x5xi8>) outs(%{{.+}} : tensor<5x3xf32>)
// AUTO:          %[[W:.+]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<3x5xi8>) outs(%{{.+}} : tensor<3x5xf32>)
// AUTO-NOT:      linalg.transpose
// CLONE:         %[[T:.+]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<3x5xi8>) outs(%{{.+}} : tensor<5x3xf32>)
// CLONE:         %[[W:.+]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<3x5xi8>) outs(%{{.+}} : tensor<3x5xf32>)
// CLONE-NOT:     linalg.transpose
// READ:          %[[W:.+]] = linalg.generic {{.*}} ins(%[[Q]] : tensor<3x5xi8>) outs(%{{.+}} : tensor<3x5xf32>)
// READ:          %[[T:.+]] = linalg.transpose ins(%[[W]] :
// CHECK:         return %[[T]], %[[W]]
#id = affine_map<(d0, d1) -> (d0, d1)>
// PITFALL 27
func.func @root(%q: tensor<3x5xi8>) -> (tensor<5x3xf32>, tensor<3x5xf32>) {
  %e = tensor.empty() : tensor<3x5xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%0 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t, %0 : tensor<5x3xf32>, tensor<3x5xf32>
}

// -----

// A value inside the chain is used elsewhere: it can be read in permuted order, at no cost but its own bytes. Here the
// storage is wider than the value, so reading is also what `auto` prefers.

// CHECK-DAG:   #[[$ID:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[$PERMUTED:.+]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-LABEL: func.func @inside
// CHECK-SAME:    %[[Q:[^ :]+]]: tensor<?x?xi32>
// CLONE:         %[[C:.+]] = linalg.generic {indexing_maps = [#[[$PERMUTED]], #[[$ID]]], {{.*}} ins(%[[Q]] :
// CHECK:         %[[W:.+]] = linalg.generic {indexing_maps = [#[[$ID]], #[[$ID]]], {{.*}} ins(%[[Q]] :
// AUTO:          %[[T:.+]] = linalg.generic {indexing_maps = [#[[$PERMUTED]], #[[$ID]]], {{.*}} ins(%[[W]] :
// READ:          %[[T:.+]] = linalg.generic {indexing_maps = [#[[$PERMUTED]], #[[$ID]]], {{.*}} ins(%[[W]] :
// CLONE:         %[[T:.+]] = linalg.generic {indexing_maps = [#[[$ID]], #[[$ID]]], {{.*}} ins(%[[C]] :
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      arith.mulf
// CHECK-NOT:     linalg.transpose
// CHECK:         return %[[T]], %[[W]]
#id = affine_map<(d0, d1) -> (d0, d1)>
// PITFALL 27
func.func @inside(%q: tensor<?x?xi32>, %scale: f16, %e: tensor<?x?xf16>, %f: tensor<?x?xf16>)
    -> (tensor<?x?xf16>, tensor<?x?xf16>) {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<?x?xi32>) outs(%e : tensor<?x?xf16>) {
  ^bb0(%in: i32, %out: f16):
    %a = arith.sitofp %in : i32 to f16
    linalg.yield %a : f16
  } -> tensor<?x?xf16>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<?x?xf16>) outs(%e : tensor<?x?xf16>) {
  ^bb0(%in: f16, %out: f16):
    %a = arith.mulf %in, %scale : f16
    linalg.yield %a : f16
  } -> tensor<?x?xf16>
  %t = linalg.transpose ins(%1 : tensor<?x?xf16>) outs(%f : tensor<?x?xf16>) permutation = [1, 0]
  return %t, %0 : tensor<?x?xf16>, tensor<?x?xf16>
}

// -----

// Two orders of the same value: each gets its own chain, nothing of the old one is left.

// CHECK-LABEL: func.func @two_orders
// CHECK-SAME:    %[[Q:[^ :]+]]: tensor<2x3x5xi8>
// AUTO:          %[[B:.+]] = linalg.generic {{.*}} ins(%[[Q]] : {{.+}}) outs(%{{.+}} : tensor<5x2x3xf32>)
// AUTO:          %[[A:.+]] = linalg.generic {{.*}} ins(%[[Q]] : {{.+}}) outs(%{{.+}} : tensor<3x5x2xf32>)
// AUTO-NOT:      {{linalg.transpose|linalg.generic}}
// CLONE-NOT:     linalg.transpose
// READ:          linalg.generic
// READ-COUNT-2:  linalg.transpose
// CHECK:         return
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @two_orders(%q: tensor<2x3x5xi8>) -> (tensor<3x5x2xf32>, tensor<5x2x3xf32>) {
  %e = tensor.empty() : tensor<2x3x5xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q : tensor<2x3x5xi8>) outs(%e : tensor<2x3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<2x3x5xf32>
  %f = tensor.empty() : tensor<3x5x2xf32>
  %t = linalg.transpose ins(%0 : tensor<2x3x5xf32>) outs(%f : tensor<3x5x2xf32>) permutation = [1, 2, 0]
  %g = tensor.empty() : tensor<5x2x3xf32>
  %u = linalg.transpose ins(%0 : tensor<2x3x5xf32>) outs(%g : tensor<5x2x3xf32>) permutation = [2, 0, 1]
  return %t, %u : tensor<3x5x2xf32>, tensor<5x2x3xf32>
}

// -----

// A stored value in both orders within one chain is read in both; the chain is not split.

// CHECK-LABEL: func.func @both_orders_below
// CHECK-SAME:    %[[Q:[^ :]+]]: tensor<4x4xi8>
// CHECK:         %[[W:.+]] = linalg.generic {{.*}} ins(%[[Q]] :
// CHECK:           arith.sitofp
// CHECK:         %[[S:.+]] = linalg.generic {{.*}} ins(%[[W]], %[[W]] :
// CHECK:           arith.addf
// CHECK-NOT:     linalg.transpose
// CHECK:         return %[[S]]
#id = affine_map<(d0, d1) -> (d0, d1)>
#permuted = affine_map<(d0, d1) -> (d1, d0)>
func.func @both_orders_below(%q: tensor<4x4xi8>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<4x4xi8>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<4x4xf32>
  %1 = linalg.generic {indexing_maps = [#id, #permuted, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0, %0 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
  ^bb0(%in: f32, %other: f32, %out: f32):
    %a = arith.addf %in, %other : f32
    linalg.yield %a : f32
  } -> tensor<4x4xf32>
  %t = linalg.transpose ins(%1 : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) permutation = [1, 0]
  return %t : tensor<4x4xf32>
}
