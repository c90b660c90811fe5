// RUN: qtranspose-opt %s --split-input-file --qtranspose-fuse-dequant-into-matmul --qtranspose-tile-fused-dequant=tile-elements=256 | FileCheck %s

//===----------------------------------------------------------------------===//
// The dequantized weight exists one tile at a time.
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @many_rows
// CHECK-NOT: tensor<48x64xf32>
// CHECK: scf.for
// CHECK: scf.for
// CHECK: %[[W:.+]] = tensor.extract_slice %arg1[{{.*}}] [24, 8] [1, 1] : tensor<48x64xi8> to tensor<24x8xi8>
// CHECK: tensor.empty() : tensor<24x8xf32>
// CHECK: %[[D:.+]] = linalg.generic {{.*}} ins(%[[W]], {{.*}} : tensor<24x8xi8>, tensor<24xf32>)
// CHECK: arith.sitofp
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%{{.+}}, %[[D]] : tensor<32x8xf32>, tensor<24x8xf32>)
// CHECK-NOT: tensor<48x64xf32>
func.func @many_rows(%x: tensor<32x64xf32>, %w: tensor<48x64xi8>, %s: tensor<48xf32>) -> tensor<32x48xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48x64xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n)>, affine_map<(n, k) -> (n, k)>], iterator_types = ["parallel", "parallel"]}
      ins(%w, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%q: i8, %scale: f32, %out: f32):
    %f = arith.sitofp %q : i8 to f32
    %v = arith.mulf %f, %scale : f32
    linalg.yield %v : f32
  } -> tensor<48x64xf32>
  %et = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%d : tensor<48x64xf32>) outs(%et : tensor<64x48xf32>) permutation = [1, 0]
  %ey = tensor.empty() : tensor<32x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%ey : tensor<32x48xf32>) -> tensor<32x48xf32>
  %y = linalg.matmul ins(%x, %t : tensor<32x64xf32>, tensor<64x48xf32>) outs(%init : tensor<32x48xf32>) -> tensor<32x48xf32>
  return %y : tensor<32x48xf32>
}

// -----

//===----------------------------------------------------------------------===//
// A weight that fits in one tile is not tiled, and nothing else is touched.
//===----------------------------------------------------------------------===//

// CHECK-LABEL: func.func @unmarked
// CHECK-NOT: scf.for
func.func @unmarked(%x: tensor<32x64xf32>, %w: tensor<64x48xf32>, %init: tensor<32x48xf32>) -> tensor<32x48xf32> {
  %y = linalg.matmul ins(%x, %w : tensor<32x64xf32>, tensor<64x48xf32>) outs(%init : tensor<32x48xf32>) -> tensor<32x48xf32>
  return %y : tensor<32x48xf32>
}

// -----

// A tile of uneven size is not cut again.
// RUN: qtranspose-opt %s --split-input-file --qtranspose-fuse-dequant-into-matmul=decision=tile --qtranspose-tile-fused-dequant=tile-elements=8 --qtranspose-tile-fused-dequant=tile-elements=8 | FileCheck %s --check-prefix=TWICE

// TWICE-LABEL: func.func @uneven
// TWICE-COUNT-1: scf.for
// TWICE-NOT: scf.for
// TWICE: attrs = {qtranspose.materialized}
// TWICE-NOT: scf.for
func.func @uneven(%x: tensor<2x3xf32>, %q: tensor<4x3xi8>, %i: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %e = tensor.empty() : tensor<4x3xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n, k)>],
      iterator_types = ["parallel", "parallel"]} ins(%q : tensor<4x3xi8>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%a: i8, %o: f32):
    %r = arith.sitofp %a : i8 to f32
    linalg.yield %r : f32
  } -> tensor<4x3xf32>
  %et = tensor.empty() : tensor<3x4xf32>
  %t = linalg.transpose ins(%w : tensor<4x3xf32>) outs(%et : tensor<3x4xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<2x3xf32>, tensor<3x4xf32>) outs(%i : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
