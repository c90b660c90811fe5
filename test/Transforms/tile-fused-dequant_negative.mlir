// A refusal has a name, and leaves the module byte-identical: dead ops and duplicate constants included.

// RUN: qtranspose-opt %s -o %t.before
// RUN: qtranspose-opt %s --qtranspose-tile-fused-dequant -o %t.after \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --implicit-check-not=remark:
// RUN: diff %t.before %t.after

// No rows: there is nothing to compute tiles for, and upstream tiling aborts.

// CHECK: remark: [Missed] not-tileable | {{.*}} Function=no_rows | Reason="an iteration dim is empty"
// PITFALL 9
func.func @no_rows(%x: tensor<0x64xf32>, %q: tensor<64x48xi8>, %init: tensor<0x48xf32>) -> tensor<0x48xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<64x48xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>],
                       iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<64x48xi8>) outs(%e : tensor<64x48xf32>) attrs = {qtranspose.tile_fused} {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<64x48xf32>
  %y = linalg.matmul ins(%x, %w : tensor<0x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<0x48xf32>) -> tensor<0x48xf32>
  return %y : tensor<0x48xf32>
}
