// Where a weight is dequantized: by the number of rows, or as asked for.

// DEFINE: %{fuse} = qtranspose-opt %s --qtranspose-fuse-dequant-into-matmul
// RUN: %{fuse} | FileCheck %s --check-prefixes=CHECK,ELEMENT
// RUN: %{fuse}=few-rows=3 | FileCheck %s --check-prefixes=CHECK,TILE,KEPT
// RUN: %{fuse}="few-rows=3 decision=element" | FileCheck %s --check-prefixes=CHECK,ELEMENT
// RUN: %{fuse}=decision=tile | FileCheck %s --check-prefixes=CHECK,TILE,KEPT
// RUN: %{fuse}=decision=materialize | FileCheck %s --check-prefixes=CHECK,STORED,KEPT
// RUN: %{fuse}="decision=tile consumer-layout=kn" | FileCheck %s --check-prefixes=CHECK,KN
// RUN: %{fuse}="decision=tile consumer-layout=nk" | FileCheck %s --check-prefixes=CHECK,NK

// Four rows, and a weight that is read as [K, N]. A widened weight costs nothing to compute, whatever was asked for.

// CHECK-LABEL:   func.func @four_rows
// ELEMENT-NOT:     qtranspose.
// ELEMENT:         linalg.generic
// ELEMENT-SAME:      ins({{.*}} : tensor<4x6xf32>, tensor<6x5xi8>, tensor<5xf32>) outs({{.*}} : tensor<4x5xf32>)
// TILE:            linalg.generic {{.*}} ins({{.*}} : tensor<6x5xi8>, tensor<5xf32>)
// TILE-SAME:         outs(%{{.*}} : tensor<5x6xf32>) attrs = {qtranspose.tile_fused}
// STORED:          linalg.generic {{.*}} ins({{.*}} : tensor<6x5xi8>, tensor<5xf32>)
// STORED-SAME:       outs(%{{.*}} : tensor<5x6xf32>) attrs = {qtranspose.materialized}
// KEPT:            linalg.generic
// KEPT-SAME:         ins({{.*}} : tensor<4x6xf32>, tensor<5x6xf32>) outs({{.*}} : tensor<4x5xf32>)
// KN:              outs(%{{.*}} : tensor<6x5xf32>) attrs = {qtranspose.tile_fused}
// NK:              outs(%{{.*}} : tensor<5x6xf32>) attrs = {qtranspose.tile_fused}
func.func @four_rows(%x: tensor<4x6xf32>, %q: tensor<6x5xi8>, %s: tensor<5xf32>, %init: tensor<4x5xf32>)
    -> tensor<4x5xf32> {
  %e = tensor.empty() : tensor<6x5xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>,
                                        affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<6x5xi8>, tensor<5xf32>) outs(%e : tensor<6x5xf32>) {
  ^bb0(%a: i8, %b: f32, %out: f32):
    %c = arith.sitofp %a : i8 to f32
    %p = arith.mulf %c, %b : f32
    linalg.yield %p : f32
  } -> tensor<6x5xf32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xf32>, tensor<6x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %y : tensor<4x5xf32>
}

// CHECK-LABEL: func.func @widened
// CHECK-NOT:     qtranspose.
// CHECK:         linalg.generic {{.*}} ins({{.*}} : tensor<4x6xi32>, tensor<6x5xi8>) outs({{.*}} : tensor<4x5xi32>)
func.func @widened(%x: tensor<4x6xi32>, %q: tensor<6x5xi8>, %init: tensor<4x5xi32>) -> tensor<4x5xi32> {
  %w = arith.extsi %q : tensor<6x5xi8> to tensor<6x5xi32>
  %y = linalg.matmul ins(%x, %w : tensor<4x6xi32>, tensor<6x5xi32>) outs(%init : tensor<4x5xi32>) -> tensor<4x5xi32>
  return %y : tensor<4x5xi32>
}
