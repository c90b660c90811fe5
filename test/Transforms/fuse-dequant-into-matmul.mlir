// The contraction reads the stored weight: every spelling ends in one op over dims that are split where it is packed.
// test/numeric/test_fuse_forms.py executes these modules before and after.

// DEFINE: %{fuse} = --split-input-file --qtranspose-fuse-dequant-into-matmul
// RUN: qtranspose-opt %s %{fuse} -o %t.once
// RUN: FileCheck %s --input-file=%t.once --implicit-check-not=linalg.transpose --implicit-check-not=linalg.matmul
// RUN: qtranspose-opt %t.once %{fuse} -o %t.twice
// RUN: diff %t.once %t.twice
// RUN: mlir-opt %s --split-input-file --load-pass-plugin=%plugin \
// RUN:   --pass-pipeline='builtin.module(qtranspose-fuse-dequant-into-matmul)' -o %t.plugin
// RUN: diff %t.once %t.plugin

// A scale per row, dequantized and transposed: one op reads the stored weight.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @per_axis
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x64xf32>, %[[Q:[^ :]+]]: tensor<48x64xi8>, %[[S:[^ :]+]]: tensor<48xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X]], %[[Q]], %[[S]] : tensor<4x64xf32>, tensor<48x64xi8>, tensor<48xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<4x48xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V1:.+]] = arith.mulf %[[V]], %[[IN2]] : f32
// CHECK:           %[[V2:.+]] = arith.mulf %[[IN]], %[[V1]] : f32
// CHECK:           %[[V3:.+]] = arith.addf %[[ACC]], %[[V2]] : f32
// CHECK:           linalg.yield %[[V3]] : f32
// CHECK:         return %[[G]] : tensor<4x48xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @per_axis(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>) -> tensor<4x48xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x48xf32>) -> tensor<4x48xf32>
  %ew = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%ew : tensor<48x64xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<4x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// Groups of 16: the summed dim is split, the activation is seen over both parts.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2, d3) -> (d1, d2, d3)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2, d3) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
// CHECK-LABEL: func.func @grouped
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x64xf32>, %[[Q:[^ :]+]]: tensor<48x4x16xi8>, %[[S:[^ :]+]]: tensor<48x4x1xf32>
// CHECK:         %[[E:.+]] = tensor.expand_shape %[[X]] {{\[\[}}0], [1, 2]] output_shape [4, 4, 16] : tensor<4x64xf32> into tensor<4x4x16xf32>
// CHECK:         %[[C:.+]] = tensor.collapse_shape %[[S]] {{\[\[}}0], [1, 2]] : tensor<48x4x1xf32> into tensor<48x4xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
// CHECK-SAME:      ins(%[[E]], %[[Q]], %[[C]] : tensor<4x4x16xf32>, tensor<48x4x16xi8>, tensor<48x4xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<4x48xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V1:.+]] = arith.mulf %[[V]], %[[IN2]] : f32
// CHECK:           %[[V2:.+]] = arith.mulf %[[IN]], %[[V1]] : f32
// CHECK:           %[[V3:.+]] = arith.addf %[[ACC]], %[[V2]] : f32
// CHECK:           linalg.yield %[[V3]] : f32
// CHECK:         return %[[G]] : tensor<4x48xf32>
#i3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#group = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
func.func @grouped(%x: tensor<4x64xf32>, %q: tensor<48x4x16xi8>, %s: tensor<48x4x1xf32>) -> tensor<4x48xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x48xf32>) -> tensor<4x48xf32>
  %ew3 = tensor.empty() : tensor<48x4x16xf32>
  %w3 = linalg.generic {indexing_maps = [#i3, #group, #i3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q, %s : tensor<48x4x16xi8>, tensor<48x4x1xf32>) outs(%ew3 : tensor<48x4x16xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<48x4x16xf32>
  %w = tensor.collapse_shape %w3 [[0], [1, 2]] : tensor<48x4x16xf32> into tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<4x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// Low and high nibbles, stacked: one shift amount per half of a byte, out of a table.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2, d3) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2, d3) -> (d3)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2, d3) -> (d1)>
// CHECK-DAG:   #[[$MAP4:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
// CHECK-LABEL: func.func @nibbles
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x64xf32>, %[[Q:[^ :]+]]: tensor<48x32xi8>, %[[S:[^ :]+]]: tensor<48xf32>
// CHECK:         %[[E:.+]] = tensor.expand_shape %[[X]] {{\[\[}}0], [1, 2]] output_shape [4, 32, 2] : tensor<4x64xf32> into tensor<4x32x2xf32>
// CHECK:         %[[K:.+]] = arith.constant dense<[0, 4]> : tensor<2xi8>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]], #[[$MAP4]]], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
// CHECK-SAME:      ins(%[[E]], %[[Q]], %[[K]], %[[S]] : tensor<4x32x2xf32>, tensor<48x32xi8>, tensor<2xi8>, tensor<48xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<4x48xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: i8, %[[IN3:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.shrui %[[IN1]], %[[IN2]] : i8
// CHECK:           %[[K1:.+]] = arith.constant 15 : i8
// CHECK:           %[[V1:.+]] = arith.andi %[[V]], %[[K1]] : i8
// CHECK:           %[[V2:.+]] = arith.uitofp %[[V1]] : i8 to f32
// CHECK:           %[[V3:.+]] = arith.mulf %[[V2]], %[[IN3]] : f32
// CHECK:           %[[V4:.+]] = arith.mulf %[[IN]], %[[V3]] : f32
// CHECK:           %[[V5:.+]] = arith.addf %[[ACC]], %[[V4]] : f32
// CHECK:           linalg.yield %[[V5]] : f32
// CHECK:         return %[[G]] : tensor<4x48xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
// PITFALL 13
func.func @nibbles(%x: tensor<4x64xf32>, %q: tensor<48x32xi8>, %s: tensor<48xf32>) -> tensor<4x48xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x48xf32>) -> tensor<4x48xf32>
  %elo = tensor.empty() : tensor<48x32xi8>
  %lo = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<48x32xi8>) outs(%elo : tensor<48x32xi8>) {
  ^bb0(%a0: i8, %out: i8):
    %m = arith.constant 15 : i8
    %v = arith.andi %a0, %m : i8
    linalg.yield %v : i8
  } -> tensor<48x32xi8>
  %ehi = tensor.empty() : tensor<48x32xi8>
  %hi = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<48x32xi8>) outs(%ehi : tensor<48x32xi8>) {
  ^bb0(%a0: i8, %out: i8):
    %m = arith.constant 4 : i8
    %v = arith.shrui %a0, %m : i8
    linalg.yield %v : i8
  } -> tensor<48x32xi8>
  %lo3 = tensor.expand_shape %lo [[0], [1, 2]] output_shape [48, 32, 1] : tensor<48x32xi8> into tensor<48x32x1xi8>
  %hi3 = tensor.expand_shape %hi [[0], [1, 2]] output_shape [48, 32, 1] : tensor<48x32xi8> into tensor<48x32x1xi8>
  %both = tensor.concat dim(2) %lo3, %hi3 : (tensor<48x32x1xi8>, tensor<48x32x1xi8>) -> tensor<48x32x2xi8>
  %flat = tensor.collapse_shape %both [[0], [1, 2]] : tensor<48x32x2xi8> into tensor<48x64xi8>
  %ew = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%flat, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%ew : tensor<48x64xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.uitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<4x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// The low nibbles are the first half of a row, the high ones the second.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2, d3) -> (d1, d3)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2, d3) -> (d2)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2, d3) -> (d1)>
// CHECK-DAG:   #[[$MAP4:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
// CHECK-LABEL: func.func @halves
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x64xf32>, %[[Q:[^ :]+]]: tensor<48x32xi8>, %[[S:[^ :]+]]: tensor<48xf32>
// CHECK:         %[[E:.+]] = tensor.expand_shape %[[X]] {{\[\[}}0], [1, 2]] output_shape [4, 2, 32] : tensor<4x64xf32> into tensor<4x2x32xf32>
// CHECK:         %[[K:.+]] = arith.constant dense<[0, 4]> : tensor<2xi8>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]], #[[$MAP4]]], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
// CHECK-SAME:      ins(%[[E]], %[[Q]], %[[K]], %[[S]] : tensor<4x2x32xf32>, tensor<48x32xi8>, tensor<2xi8>, tensor<48xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<4x48xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: i8, %[[IN3:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.shrui %[[IN1]], %[[IN2]] : i8
// CHECK:           %[[K1:.+]] = arith.constant 15 : i8
// CHECK:           %[[V1:.+]] = arith.andi %[[V]], %[[K1]] : i8
// CHECK:           %[[V2:.+]] = arith.uitofp %[[V1]] : i8 to f32
// CHECK:           %[[V3:.+]] = arith.mulf %[[V2]], %[[IN3]] : f32
// CHECK:           %[[V4:.+]] = arith.mulf %[[IN]], %[[V3]] : f32
// CHECK:           %[[V5:.+]] = arith.addf %[[ACC]], %[[V4]] : f32
// CHECK:           linalg.yield %[[V5]] : f32
// CHECK:         return %[[G]] : tensor<4x48xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @halves(%x: tensor<4x64xf32>, %q: tensor<48x32xi8>, %s: tensor<48xf32>) -> tensor<4x48xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x48xf32>) -> tensor<4x48xf32>
  %elo = tensor.empty() : tensor<48x32xi8>
  %lo = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<48x32xi8>) outs(%elo : tensor<48x32xi8>) {
  ^bb0(%a0: i8, %out: i8):
    %m = arith.constant 15 : i8
    %v = arith.andi %a0, %m : i8
    linalg.yield %v : i8
  } -> tensor<48x32xi8>
  %ehi = tensor.empty() : tensor<48x32xi8>
  %hi = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<48x32xi8>) outs(%ehi : tensor<48x32xi8>) {
  ^bb0(%a0: i8, %out: i8):
    %m = arith.constant 4 : i8
    %v = arith.shrui %a0, %m : i8
    linalg.yield %v : i8
  } -> tensor<48x32xi8>
  %flat = tensor.concat dim(1) %lo, %hi : (tensor<48x32xi8>, tensor<48x32xi8>) -> tensor<48x64xi8>
  %ew = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%flat, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%ew : tensor<48x64xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.uitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<4x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// Eight nibbles per word along the sum, [K / 8, N] as GPTQ stores them.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2, d3) -> (d2, d1)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2, d3) -> (d1)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
// CHECK-LABEL: func.func @words
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x64xf32>, %[[Q:[^ :]+]]: tensor<8x48xi32>, %[[S:[^ :]+]]: tensor<48xf32>
// CHECK:         %[[E:.+]] = tensor.expand_shape %[[X]] {{\[\[}}0], [1, 2]] output_shape [4, 8, 8] : tensor<4x64xf32> into tensor<4x8x8xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
// CHECK-SAME:      ins(%[[E]], %[[Q]], %[[S]] : tensor<4x8x8xf32>, tensor<8x48xi32>, tensor<48xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<4x48xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i32, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[I:.+]] = linalg.index 2 : index
// CHECK:           %[[K:.+]] = arith.constant 8 : index
// CHECK:           %[[V:.+]] = arith.muli %[[I]], %[[K]] : index
// CHECK:           %[[I1:.+]] = linalg.index 3 : index
// CHECK:           %[[V1:.+]] = arith.addi %[[V]], %[[I1]] : index
// CHECK:           %[[K1:.+]] = arith.constant 8 : index
// CHECK:           %[[V2:.+]] = arith.remui %[[V1]], %[[K1]] : index
// CHECK:           %[[V3:.+]] = arith.index_cast %[[V2]] : index to i32
// CHECK:           %[[K2:.+]] = arith.constant 4 : i32
// CHECK:           %[[V4:.+]] = arith.muli %[[V3]], %[[K2]] : i32
// CHECK:           %[[V5:.+]] = arith.shrui %[[IN1]], %[[V4]] : i32
// CHECK:           %[[K3:.+]] = arith.constant 15 : i32
// CHECK:           %[[V6:.+]] = arith.andi %[[V5]], %[[K3]] : i32
// CHECK:           %[[V7:.+]] = arith.sitofp %[[V6]] : i32 to f32
// CHECK:           %[[V8:.+]] = arith.mulf %[[V7]], %[[IN2]] : f32
// CHECK:           %[[V9:.+]] = arith.mulf %[[IN]], %[[V8]] : f32
// CHECK:           %[[V10:.+]] = arith.addf %[[ACC]], %[[V9]] : f32
// CHECK:           linalg.yield %[[V10]] : f32
// CHECK:         return %[[G]] : tensor<4x48xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#word = affine_map<(d0, d1) -> (d0 floordiv 8, d1)>
#column = affine_map<(d0, d1) -> (d1)>
func.func @words(%x: tensor<4x64xf32>, %q: tensor<8x48xi32>, %s: tensor<48xf32>) -> tensor<4x48xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x48xf32>) -> tensor<4x48xf32>
  %et = tensor.empty() : tensor<64x48xf32>
  %t = linalg.generic {indexing_maps = [#word, #column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<8x48xi32>, tensor<48xf32>) outs(%et : tensor<64x48xf32>) {
  ^bb0(%a0: i32, %a1: f32, %out: f32):
    %k = linalg.index 0 : index
    %eight = arith.constant 8 : index
    %r = arith.remui %k, %eight : index
    %ri = arith.index_cast %r : index to i32
    %four = arith.constant 4 : i32
    %by = arith.muli %ri, %four : i32
    %v = arith.shrui %a0, %by : i32
    %m = arith.constant 15 : i32
    %n = arith.andi %v, %m : i32
    %c = arith.sitofp %n : i32 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<64x48xf32>
  %y = linalg.matmul ins(%x, %t : tensor<4x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// The storage is transposed before it is dequantized.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @transposed_storage
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x64xf32>, %[[Q:[^ :]+]]: tensor<48x64xi8>, %[[S:[^ :]+]]: tensor<48xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X]], %[[Q]], %[[S]] : tensor<4x64xf32>, tensor<48x64xi8>, tensor<48xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<4x48xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V1:.+]] = arith.mulf %[[V]], %[[IN2]] : f32
// CHECK:           %[[V2:.+]] = arith.mulf %[[IN]], %[[V1]] : f32
// CHECK:           %[[V3:.+]] = arith.addf %[[ACC]], %[[V2]] : f32
// CHECK:           linalg.yield %[[V3]] : f32
// CHECK:         return %[[G]] : tensor<4x48xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#column = affine_map<(d0, d1) -> (d1)>
func.func @transposed_storage(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>) -> tensor<4x48xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x48xf32>) -> tensor<4x48xf32>
  %g = tensor.empty() : tensor<64x48xi8>
  %qt = linalg.transpose ins(%q : tensor<48x64xi8>) outs(%g : tensor<64x48xi8>) permutation = [1, 0]
  %et = tensor.empty() : tensor<64x48xf32>
  %t = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%qt, %s : tensor<64x48xi8>, tensor<48xf32>) outs(%et : tensor<64x48xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<64x48xf32>
  %y = linalg.matmul ins(%x, %t : tensor<4x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// Converted before the matmul, scaled after it: the scale stays where it is.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[$MAP4:.+]] = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func.func @scale_afterwards
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x64xf32>, %[[Q:[^ :]+]]: tensor<48x64xi8>, %[[S:[^ :]+]]: tensor<48xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X]], %[[Q]] : tensor<4x64xf32>, tensor<48x64xi8>)
// CHECK-SAME:      outs(%{{.+}} : tensor<4x48xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V1:.+]] = arith.mulf %[[IN]], %[[V]] : f32
// CHECK:           %[[V2:.+]] = arith.addf %[[ACC]], %[[V1]] : f32
// CHECK:           linalg.yield %[[V2]] : f32
// CHECK:         %[[G1:.+]] = linalg.generic {indexing_maps = [#[[$MAP3]], #[[$MAP4]], #[[$MAP3]]], iterator_types = ["parallel", "parallel"]}
// CHECK-SAME:      ins(%[[G]], %[[S]] : tensor<4x48xf32>, tensor<48xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<4x48xf32>)
// CHECK:         ^bb0(%[[IN2:.+]]: f32, %[[IN3:.+]]: f32, %[[ACC1:.+]]: f32):
// CHECK:           %[[V3:.+]] = arith.mulf %[[IN2]], %[[IN3]] : f32
// CHECK:           linalg.yield %[[V3]] : f32
// CHECK:         return %[[G1]] : tensor<4x48xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#column = affine_map<(d0, d1) -> (d1)>
func.func @scale_afterwards(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>) -> tensor<4x48xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x48xf32>) -> tensor<4x48xf32>
  %ew = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<48x64xi8>) outs(%ew : tensor<48x64xf32>) {
  ^bb0(%a0: i8, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    linalg.yield %c : f32
  } -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  %u = linalg.matmul ins(%x, %t : tensor<4x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  %ey = tensor.empty() : tensor<4x48xf32>
  %y = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%u, %s : tensor<4x48xf32>, tensor<48xf32>) outs(%ey : tensor<4x48xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %p = arith.mulf %a0, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// Experts of three different sizes, transposed by [0, 2, 1].

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-LABEL: func.func @batched
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<2x4x6xf32>, %[[Q:[^ :]+]]: tensor<2x5x6xi8>, %[[S:[^ :]+]]: tensor<2x5xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X]], %[[Q]], %[[S]] : tensor<2x4x6xf32>, tensor<2x5x6xi8>, tensor<2x5xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<2x4x5xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V1:.+]] = arith.mulf %[[V]], %[[IN2]] : f32
// CHECK:           %[[V2:.+]] = arith.mulf %[[IN]], %[[V1]] : f32
// CHECK:           %[[V3:.+]] = arith.addf %[[ACC]], %[[V2]] : f32
// CHECK:           linalg.yield %[[V3]] : f32
// CHECK:         return %[[G]] : tensor<2x4x5xf32>
#i3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @batched(%x: tensor<2x4x6xf32>, %q: tensor<2x5x6xi8>, %s: tensor<2x5xf32>) -> tensor<2x4x5xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<2x4x5xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  %ew = tensor.empty() : tensor<2x5x6xf32>
  %w = linalg.generic {indexing_maps = [#i3, affine_map<(d0, d1, d2) -> (d0, d1)>, #i3],
    iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q, %s : tensor<2x5x6xi8>, tensor<2x5xf32>) outs(%ew : tensor<2x5x6xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<2x5x6xf32>
  %f = tensor.empty() : tensor<2x6x5xf32>
  %t = linalg.transpose ins(%w : tensor<2x5x6xf32>) outs(%f : tensor<2x6x5xf32>) permutation = [0, 2, 1]
  %y = linalg.batch_matmul ins(%x, %t : tensor<2x4x6xf32>, tensor<2x6x5xf32>)
      outs(%init : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  return %y : tensor<2x4x5xf32>
}

// -----

// One weight for every batch, broadcast to a tensor of its own: neither is stored.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2, d3) -> (d2)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-LABEL: func.func @broadcast_over_batch
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<2x4x6xf32>, %[[Q:[^ :]+]]: tensor<5x6xi8>, %[[S:[^ :]+]]: tensor<5xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X]], %[[Q]], %[[S]] : tensor<2x4x6xf32>, tensor<5x6xi8>, tensor<5xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<2x4x5xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V1:.+]] = arith.mulf %[[V]], %[[IN2]] : f32
// CHECK:           %[[V2:.+]] = arith.mulf %[[IN]], %[[V1]] : f32
// CHECK:           %[[V3:.+]] = arith.addf %[[ACC]], %[[V2]] : f32
// CHECK:           linalg.yield %[[V3]] : f32
// CHECK:         return %[[G]] : tensor<2x4x5xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
// PITFALL 14
func.func @broadcast_over_batch(%x: tensor<2x4x6xf32>, %q: tensor<5x6xi8>, %s: tensor<5xf32>) -> tensor<2x4x5xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<2x4x5xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  %ew = tensor.empty() : tensor<5x6xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<5x6xi8>, tensor<5xf32>) outs(%ew : tensor<5x6xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<5x6xf32>
  %f = tensor.empty() : tensor<6x5xf32>
  %t = linalg.transpose ins(%w : tensor<5x6xf32>) outs(%f : tensor<6x5xf32>) permutation = [1, 0]
  %g = tensor.empty() : tensor<2x6x5xf32>
  %b = linalg.broadcast ins(%t : tensor<6x5xf32>) outs(%g : tensor<2x6x5xf32>) dimensions = [0]
  %y = linalg.batch_matmul ins(%x, %b : tensor<2x4x6xf32>, tensor<2x6x5xf32>)
      outs(%init : tensor<2x4x5xf32>) -> tensor<2x4x5xf32>
  return %y : tensor<2x4x5xf32>
}

// -----

// A fully connected layer as a 1x1 convolution: the unit dims go.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2) -> (d0)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @convolution
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<1x6x7xf32>, %[[Q:[^ :]+]]: tensor<5x6xi8>, %[[S:[^ :]+]]: tensor<5xf32>
// CHECK:         %[[C:.+]] = tensor.collapse_shape %[[X]] {{\[\[}}0, 1], [2]] : tensor<1x6x7xf32> into tensor<6x7xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[C]], %[[Q]], %[[S]] : tensor<6x7xf32>, tensor<5x6xi8>, tensor<5xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<5x7xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V1:.+]] = arith.mulf %[[V]], %[[IN2]] : f32
// CHECK:           %[[V2:.+]] = arith.mulf %[[IN]], %[[V1]] : f32
// CHECK:           %[[V3:.+]] = arith.addf %[[ACC]], %[[V2]] : f32
// CHECK:           linalg.yield %[[V3]] : f32
// CHECK:         %[[E:.+]] = tensor.expand_shape %[[G]] {{\[\[}}0, 1], [2]] output_shape [1, 5, 7] : tensor<5x7xf32> into tensor<1x5x7xf32>
// CHECK:         return %[[E]] : tensor<1x5x7xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @convolution(%x: tensor<1x6x7xf32>, %q: tensor<5x6xi8>, %s: tensor<5xf32>) -> tensor<1x5x7xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<1x5x7xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<1x5x7xf32>) -> tensor<1x5x7xf32>
  %ew = tensor.empty() : tensor<5x6xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<5x6xi8>, tensor<5xf32>) outs(%ew : tensor<5x6xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<5x6xf32>
  %k = tensor.expand_shape %w [[0], [1, 2]] output_shape [5, 6, 1] : tensor<5x6xf32> into tensor<5x6x1xf32>
  %y = linalg.conv_1d_ncw_fcw {dilations = dense<1> : vector<1xi64>, strides = dense<1> : vector<1xi64>}
      ins(%x, %k : tensor<1x6x7xf32>, tensor<5x6x1xf32>) outs(%init : tensor<1x5x7xf32>) -> tensor<1x5x7xf32>
  return %y : tensor<1x5x7xf32>
}

// -----

// Integers with zero points: the transpose alone is left to take in.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @quantized_matmul
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x6xi8>, %[[Q:[^ :]+]]: tensor<5x6xi8>, %[[ZX:[^ :]+]]: i32, %[[ZW:[^ :]+]]: i32, %[[INIT:[^ :]+]]: tensor<4x5xi32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X]], %[[Q]] : tensor<4x6xi8>, tensor<5x6xi8>)
// CHECK-SAME:      outs(%[[INIT]] : tensor<4x5xi32>)
// CHECK:         ^bb0(%[[IN:.+]]: i8, %[[IN1:.+]]: i8, %[[ACC:.+]]: i32):
// CHECK:           %[[V:.+]] = arith.extsi %[[IN]] : i8 to i32
// CHECK:           %[[V1:.+]] = arith.subi %[[V]], %[[ZX]] : i32
// CHECK:           %[[V2:.+]] = arith.extsi %[[IN1]] : i8 to i32
// CHECK:           %[[V3:.+]] = arith.subi %[[V2]], %[[ZW]] : i32
// CHECK:           %[[V4:.+]] = arith.muli %[[V1]], %[[V3]] : i32
// CHECK:           %[[V5:.+]] = arith.addi %[[ACC]], %[[V4]] : i32
// CHECK:           linalg.yield %[[V5]] : i32
// CHECK:         return %[[G]] : tensor<4x5xi32>
func.func @quantized_matmul(%x: tensor<4x6xi8>, %q: tensor<5x6xi8>, %zx: i32, %zw: i32, %init: tensor<4x5xi32>)
    -> tensor<4x5xi32> {
  %f = tensor.empty() : tensor<6x5xi8>
  %t = linalg.transpose ins(%q : tensor<5x6xi8>) outs(%f : tensor<6x5xi8>) permutation = [1, 0]
  %y = linalg.quantized_matmul ins(%x, %t, %zx, %zw : tensor<4x6xi8>, tensor<6x5xi8>, i32, i32)
      outs(%init : tensor<4x5xi32>) -> tensor<4x5xi32>
  return %y : tensor<4x5xi32>
}

// -----

// Rows 8 to 31 of a shared weight are read where they are.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @sliced
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x64xf32>, %[[Q:[^ :]+]]: tensor<48x64xi8>, %[[S:[^ :]+]]: tensor<48xf32>
// CHECK:         %[[V:.+]] = tensor.extract_slice %[[Q]][8, 0] [24, 64] [1, 1] : tensor<48x64xi8> to tensor<24x64xi8>
// CHECK:         %[[V1:.+]] = tensor.extract_slice %[[S]][8] [24] [1] : tensor<48xf32> to tensor<24xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X]], %[[V]], %[[V1]] : tensor<4x64xf32>, tensor<24x64xi8>, tensor<24xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<4x24xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V2:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V3:.+]] = arith.mulf %[[V2]], %[[IN2]] : f32
// CHECK:           %[[V4:.+]] = arith.mulf %[[IN]], %[[V3]] : f32
// CHECK:           %[[V5:.+]] = arith.addf %[[ACC]], %[[V4]] : f32
// CHECK:           linalg.yield %[[V5]] : f32
// CHECK:         return %[[G]] : tensor<4x24xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @sliced(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>) -> tensor<4x24xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x24xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x24xf32>) -> tensor<4x24xf32>
  %ew = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%ew : tensor<48x64xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<48x64xf32>
  %sl = tensor.extract_slice %w[8, 0] [24, 64] [1, 1] : tensor<48x64xf32> to tensor<24x64xf32>
  %f = tensor.empty() : tensor<64x24xf32>
  %t = linalg.transpose ins(%sl : tensor<24x64xf32>) outs(%f : tensor<64x24xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<4x64xf32>, tensor<64x24xf32>)
      outs(%init : tensor<4x24xf32>) -> tensor<4x24xf32>
  return %y : tensor<4x24xf32>
}

// -----

// Two weights side by side, of different sizes: a contraction each, both into one result.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @joined
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x64xf32>, %[[Q:[^ :]+]]: tensor<20x64xi8>, %[[S:[^ :]+]]: tensor<20xf32>, %[[Q2:[^ :]+]]: tensor<28x64xi8>, %[[R:[^ :]+]]: tensor<28xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X]], %[[Q]], %[[S]] : tensor<4x64xf32>, tensor<20x64xi8>, tensor<20xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<4x20xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V1:.+]] = arith.mulf %[[V]], %[[IN2]] : f32
// CHECK:           %[[V2:.+]] = arith.mulf %[[IN]], %[[V1]] : f32
// CHECK:           %[[V3:.+]] = arith.addf %[[ACC]], %[[V2]] : f32
// CHECK:           linalg.yield %[[V3]] : f32
// CHECK:         %[[V4:.+]] = tensor.insert_slice %[[G]] into %{{.+}}[0, 0] [4, 20] [1, 1] : tensor<4x20xf32> into tensor<4x48xf32>
// CHECK:         %[[V5:.+]] = tensor.extract_slice %[[V4]][0, 20] [4, 28] [1, 1] : tensor<4x48xf32> to tensor<4x28xf32>
// CHECK:         %[[G1:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X]], %[[Q2]], %[[R]] : tensor<4x64xf32>, tensor<28x64xi8>, tensor<28xf32>)
// CHECK-SAME:      outs(%[[V5]] : tensor<4x28xf32>)
// CHECK:         ^bb0(%[[IN3:.+]]: f32, %[[IN4:.+]]: i8, %[[IN5:.+]]: f32, %[[ACC1:.+]]: f32):
// CHECK:           %[[V6:.+]] = arith.sitofp %[[IN4]] : i8 to f32
// CHECK:           %[[V7:.+]] = arith.mulf %[[V6]], %[[IN5]] : f32
// CHECK:           %[[V8:.+]] = arith.mulf %[[IN3]], %[[V7]] : f32
// CHECK:           %[[V9:.+]] = arith.addf %[[ACC1]], %[[V8]] : f32
// CHECK:           linalg.yield %[[V9]] : f32
// CHECK:         %[[V10:.+]] = tensor.insert_slice %[[G1]] into %[[V4]][0, 20] [4, 28] [1, 1] : tensor<4x28xf32> into tensor<4x48xf32>
// CHECK:         return %[[V10]] : tensor<4x48xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @joined(%x: tensor<4x64xf32>, %q: tensor<20x64xi8>, %s: tensor<20xf32>, %q2: tensor<28x64xi8>,
    %r: tensor<28xf32>) -> tensor<4x48xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x48xf32>) -> tensor<4x48xf32>
  %ewa = tensor.empty() : tensor<20x64xf32>
  %wa = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<20x64xi8>, tensor<20xf32>) outs(%ewa : tensor<20x64xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<20x64xf32>
  %ewb = tensor.empty() : tensor<28x64xf32>
  %wb = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q2, %r : tensor<28x64xi8>, tensor<28xf32>) outs(%ewb : tensor<28x64xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<28x64xf32>
  %w = tensor.concat dim(0) %wa, %wb : (tensor<20x64xf32>, tensor<28x64xf32>) -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<4x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// Two weights one below the other: the second sum goes on where the first one ends.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @joined_along_the_sum
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x64xf32>, %[[Q:[^ :]+]]: tensor<48x24xi8>, %[[S:[^ :]+]]: tensor<48xf32>, %[[Q2:[^ :]+]]: tensor<48x40xi8>, %[[R:[^ :]+]]: tensor<48xf32>
// CHECK:         %[[V:.+]] = tensor.extract_slice %[[X]][0, 0] [4, 24] [1, 1] : tensor<4x64xf32> to tensor<4x24xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[V]], %[[Q]], %[[S]] : tensor<4x24xf32>, tensor<48x24xi8>, tensor<48xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<4x48xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V1:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V2:.+]] = arith.mulf %[[V1]], %[[IN2]] : f32
// CHECK:           %[[V3:.+]] = arith.mulf %[[IN]], %[[V2]] : f32
// CHECK:           %[[V4:.+]] = arith.addf %[[ACC]], %[[V3]] : f32
// CHECK:           linalg.yield %[[V4]] : f32
// CHECK:         %[[V5:.+]] = tensor.extract_slice %[[X]][0, 24] [4, 40] [1, 1] : tensor<4x64xf32> to tensor<4x40xf32>
// CHECK:         %[[G1:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[V5]], %[[Q2]], %[[R]] : tensor<4x40xf32>, tensor<48x40xi8>, tensor<48xf32>)
// CHECK-SAME:      outs(%[[G]] : tensor<4x48xf32>)
// CHECK:         ^bb0(%[[IN3:.+]]: f32, %[[IN4:.+]]: i8, %[[IN5:.+]]: f32, %[[ACC1:.+]]: f32):
// CHECK:           %[[V6:.+]] = arith.sitofp %[[IN4]] : i8 to f32
// CHECK:           %[[V7:.+]] = arith.mulf %[[V6]], %[[IN5]] : f32
// CHECK:           %[[V8:.+]] = arith.mulf %[[IN3]], %[[V7]] : f32
// CHECK:           %[[V9:.+]] = arith.addf %[[ACC1]], %[[V8]] : f32
// CHECK:           linalg.yield %[[V9]] : f32
// CHECK:         return %[[G1]] : tensor<4x48xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @joined_along_the_sum(%x: tensor<4x64xf32>, %q: tensor<48x24xi8>, %s: tensor<48xf32>,
    %q2: tensor<48x40xi8>, %r: tensor<48xf32>) -> tensor<4x48xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x48xf32>) -> tensor<4x48xf32>
  %ewa = tensor.empty() : tensor<48x24xf32>
  %wa = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x24xi8>, tensor<48xf32>) outs(%ewa : tensor<48x24xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<48x24xf32>
  %ewb = tensor.empty() : tensor<48x40xf32>
  %wb = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q2, %r : tensor<48x40xi8>, tensor<48xf32>) outs(%ewb : tensor<48x40xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<48x40xf32>
  %w = tensor.concat dim(1) %wa, %wb : (tensor<48x24xf32>, tensor<48x40xf32>) -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<4x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// Words of eight nibbles and a sum of 60: it is extended to 64 by terms that are zero.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2, d3) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
// CHECK-LABEL: func.func @ragged_words
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x60xf32>, %[[Q:[^ :]+]]: tensor<48x8xi32>
// CHECK:         %[[V:.+]] = tensor.pad %[[X]] low[0, 0] high[0, 4] {
// CHECK:         %[[E:.+]] = tensor.expand_shape %[[V]] {{\[\[}}0], [1, 2]] output_shape [4, 8, 8] : tensor<4x64xf32> into tensor<4x8x8xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]]], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
// CHECK-SAME:      ins(%[[E]], %[[Q]] : tensor<4x8x8xf32>, tensor<48x8xi32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<4x48xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i32, %[[ACC:.+]]: f32):
// CHECK:           %[[I:.+]] = linalg.index 2 : index
// CHECK:           %[[K:.+]] = arith.constant 8 : index
// CHECK:           %[[V1:.+]] = arith.muli %[[I]], %[[K]] : index
// CHECK:           %[[I1:.+]] = linalg.index 3 : index
// CHECK:           %[[V2:.+]] = arith.addi %[[V1]], %[[I1]] : index
// CHECK:           %[[K1:.+]] = arith.constant 60 : index
// CHECK:           %[[V3:.+]] = arith.cmpi ult, %[[V2]], %[[K1]] : index
// CHECK:           %[[K2:.+]] = arith.constant 8 : index
// CHECK:           %[[V4:.+]] = arith.remui %[[V2]], %[[K2]] : index
// CHECK:           %[[V5:.+]] = arith.index_cast %[[V4]] : index to i32
// CHECK:           %[[K3:.+]] = arith.constant 4 : i32
// CHECK:           %[[V6:.+]] = arith.muli %[[V5]], %[[K3]] : i32
// CHECK:           %[[V7:.+]] = arith.shrui %[[IN1]], %[[V6]] : i32
// CHECK:           %[[K4:.+]] = arith.constant 15 : i32
// CHECK:           %[[V8:.+]] = arith.andi %[[V7]], %[[K4]] : i32
// CHECK:           %[[V9:.+]] = arith.sitofp %[[V8]] : i32 to f32
// CHECK:           %[[K5:.+]] = arith.constant 0.000000e+00 : f32
// CHECK:           %[[V10:.+]] = arith.select %[[V3]], %[[V9]], %[[K5]] : f32
// CHECK:           %[[V11:.+]] = arith.mulf %[[IN]], %[[V10]] : f32
// CHECK:           %[[V12:.+]] = arith.addf %[[ACC]], %[[V11]] : f32
// CHECK:           linalg.yield %[[V12]] : f32
// CHECK:         return %[[G]] : tensor<4x48xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
// PITFALL 23
func.func @ragged_words(%x: tensor<4x60xf32>, %q: tensor<48x8xi32>) -> tensor<4x48xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x48xf32>) -> tensor<4x48xf32>
  %ew = tensor.empty() : tensor<48x60xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1 floordiv 8)>, #id],
    iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<48x8xi32>) outs(%ew : tensor<48x60xf32>) {
  ^bb0(%a0: i32, %out: f32):
    %k = linalg.index 1 : index
    %eight = arith.constant 8 : index
    %r = arith.remui %k, %eight : index
    %ri = arith.index_cast %r : index to i32
    %four = arith.constant 4 : i32
    %by = arith.muli %ri, %four : i32
    %v = arith.shrui %a0, %by : i32
    %m = arith.constant 15 : i32
    %n = arith.andi %v, %m : i32
    %c = arith.sitofp %n : i32 to f32
    linalg.yield %c : f32
  } -> tensor<48x60xf32>
  %f = tensor.empty() : tensor<60x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x60xf32>) outs(%f : tensor<60x48xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<4x60xf32>, tensor<60x48xf32>)
      outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// The group of each row is stored beside it (`g_idx`): the scale is gathered in the body.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2) -> (d2)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @gathered_scales
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x64xf32>, %[[Q:[^ :]+]]: tensor<64x48xi8>, %[[S:[^ :]+]]: tensor<4x48xf32>, %[[G:[^ :]+]]: tensor<64xi32>
// CHECK:         %[[G1:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X]], %[[Q]], %[[G]] : tensor<4x64xf32>, tensor<64x48xi8>, tensor<64xi32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<4x48xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: i32, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V1:.+]] = arith.index_castui %[[IN2]] : i32 to index
// CHECK:           %[[K:.+]] = arith.constant 4 : index
// CHECK:           %[[V2:.+]] = arith.remui %[[V1]], %[[K]] : index
// CHECK:           %[[I:.+]] = linalg.index 1 : index
// CHECK:           %[[V3:.+]] = tensor.extract %[[S]][%[[V2]], %[[I]]] : tensor<4x48xf32>
// CHECK:           %[[V4:.+]] = arith.mulf %[[V]], %[[V3]] : f32
// CHECK:           %[[V5:.+]] = arith.mulf %[[IN]], %[[V4]] : f32
// CHECK:           %[[V6:.+]] = arith.addf %[[ACC]], %[[V5]] : f32
// CHECK:           linalg.yield %[[V6]] : f32
// CHECK:         return %[[G1]] : tensor<4x48xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @gathered_scales(%x: tensor<4x64xf32>, %q: tensor<64x48xi8>, %s: tensor<4x48xf32>, %g: tensor<64xi32>)
    -> tensor<4x48xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x48xf32>) -> tensor<4x48xf32>
  %et = tensor.empty() : tensor<64x48xf32>
  %t = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %g : tensor<64x48xi8>, tensor<64xi32>) outs(%et : tensor<64x48xf32>) {
  ^bb0(%a0: i8, %a1: i32, %out: f32):
    %n = linalg.index 1 : index
    %i = arith.index_castui %a1 : i32 to index
    %four = arith.constant 4 : index
    %j = arith.remui %i, %four : index
    %v = tensor.extract %s[%j, %n] : tensor<4x48xf32>
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %v : f32
    linalg.yield %p : f32
  } -> tensor<64x48xf32>
  %y = linalg.matmul ins(%x, %t : tensor<4x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// A private callee dequantizes: the call goes, the caller reads what it passed.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @outlined
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x64xf32>, %[[Q:[^ :]+]]: tensor<48x64xi8>, %[[S:[^ :]+]]: tensor<48xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X]], %[[Q]], %[[S]] : tensor<4x64xf32>, tensor<48x64xi8>, tensor<48xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<4x48xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V1:.+]] = arith.mulf %[[V]], %[[IN2]] : f32
// CHECK:           %[[V2:.+]] = arith.mulf %[[IN]], %[[V1]] : f32
// CHECK:           %[[V3:.+]] = arith.addf %[[ACC]], %[[V2]] : f32
// CHECK:           linalg.yield %[[V3]] : f32
// CHECK:         return %[[G]] : tensor<4x48xf32>
// CHECK-LABEL: func.func private @dequantize
// CHECK:         linalg.transpose
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @outlined(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>) -> tensor<4x48xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x48xf32>) -> tensor<4x48xf32>
  %t = call @dequantize(%q, %s) : (tensor<48x64xi8>, tensor<48xf32>) -> tensor<64x48xf32>
  %y = linalg.matmul ins(%x, %t : tensor<4x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}
func.func private @dequantize(%q: tensor<48x64xi8>, %s: tensor<48xf32>) -> tensor<64x48xf32> {
  %ew = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%ew : tensor<48x64xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  return %t : tensor<64x48xf32>
}

// -----

// A global that nobody can change is a constant.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @global
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x64xf32>, %[[S:[^ :]+]]: tensor<48xf32>
// CHECK:         %[[V:.+]] = ml_program.global_load @weight : tensor<48x64xi8>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X]], %[[V]], %[[S]] : tensor<4x64xf32>, tensor<48x64xi8>, tensor<48xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<4x48xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V1:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V2:.+]] = arith.mulf %[[V1]], %[[IN2]] : f32
// CHECK:           %[[V3:.+]] = arith.mulf %[[IN]], %[[V2]] : f32
// CHECK:           %[[V4:.+]] = arith.addf %[[ACC]], %[[V3]] : f32
// CHECK:           linalg.yield %[[V4]] : f32
// CHECK:         return %[[G]] : tensor<4x48xf32>
ml_program.global private @weight(dense<3> : tensor<48x64xi8>) : tensor<48x64xi8>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @global(%x: tensor<4x64xf32>, %s: tensor<48xf32>) -> tensor<4x48xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x48xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x48xf32>) -> tensor<4x48xf32>
  %q = ml_program.global_load @weight : tensor<48x64xi8>
  %ew = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%ew : tensor<48x64xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<4x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// A weight that a loop captures is the same in every iteration.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @captured
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x5xf32>, %[[Q:[^ :]+]]: tensor<5x5xi8>, %[[S:[^ :]+]]: tensor<5xf32>, %[[STEPS:[^ :]+]]: index
// CHECK:         %[[K:.+]] = arith.constant 0 : index
// CHECK:         %[[K1:.+]] = arith.constant 1 : index
// CHECK:         %[[K2:.+]] = arith.constant 0.000000e+00 : f32
// CHECK:         %[[V:.+]] = scf.for %[[H:.+]] = %[[K]] to %[[STEPS]] step %[[K1]] iter_args(%[[H1:.+]] = %[[X]]) -> (tensor<4x5xf32>) {
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[H1]], %[[Q]], %[[S]] : tensor<4x5xf32>, tensor<5x5xi8>, tensor<5xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<4x5xf32>)
// CHECK:           ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V1:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V2:.+]] = arith.mulf %[[V1]], %[[IN2]] : f32
// CHECK:           %[[V3:.+]] = arith.mulf %[[IN]], %[[V2]] : f32
// CHECK:           %[[V4:.+]] = arith.addf %[[ACC]], %[[V3]] : f32
// CHECK:           linalg.yield %[[V4]] : f32
// CHECK:         scf.yield %[[G]] : tensor<4x5xf32>
// CHECK:         return %[[V]] : tensor<4x5xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @captured(%x: tensor<4x5xf32>, %q: tensor<5x5xi8>, %s: tensor<5xf32>, %steps: index) -> tensor<4x5xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x5xf32>
  %init = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x5xf32>) -> tensor<4x5xf32>
  %ew = tensor.empty() : tensor<5x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<5x5xi8>, tensor<5xf32>) outs(%ew : tensor<5x5xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<5x5xf32>
  %f = tensor.empty() : tensor<5x5xf32>
  %t = linalg.transpose ins(%w : tensor<5x5xf32>) outs(%f : tensor<5x5xf32>) permutation = [1, 0]
  %y = scf.for %i = %c0 to %steps step %c1 iter_args(%h = %x) -> (tensor<4x5xf32>) {
    %n = linalg.matmul ins(%h, %t : tensor<4x5xf32>, tensor<5x5xf32>) outs(%init : tensor<4x5xf32>) -> tensor<4x5xf32>
    scf.yield %n : tensor<4x5xf32>
  }
  return %y : tensor<4x5xf32>
}

// -----

// The number of rows is not known: one marked producer stays, in the order in which it is read.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1) -> (d0)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP4:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @unknown_rows
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<?x64xf32>, %[[Q:[^ :]+]]: tensor<48x64xi8>, %[[S:[^ :]+]]: tensor<48xf32>, %[[INIT:[^ :]+]]: tensor<?x48xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP]]], iterator_types = ["parallel", "parallel"]}
// CHECK-SAME:      ins(%[[Q]], %[[S]] : tensor<48x64xi8>, tensor<48xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<48x64xf32>) attrs = {qtranspose.tile_fused}
// CHECK:         ^bb0(%[[IN:.+]]: i8, %[[IN1:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.sitofp %[[IN]] : i8 to f32
// CHECK:           %[[V1:.+]] = arith.mulf %[[V]], %[[IN1]] : f32
// CHECK:           linalg.yield %[[V1]] : f32
// CHECK:         %[[G1:.+]] = linalg.generic {indexing_maps = [#[[$MAP2]], #[[$MAP3]], #[[$MAP4]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X]], %[[G]] : tensor<?x64xf32>, tensor<48x64xf32>)
// CHECK-SAME:      outs(%[[INIT]] : tensor<?x48xf32>)
// CHECK:         ^bb0(%[[IN2:.+]]: f32, %[[IN3:.+]]: f32, %[[ACC1:.+]]: f32):
// CHECK:           %[[V2:.+]] = arith.mulf %[[IN2]], %[[IN3]] : f32
// CHECK:           %[[V3:.+]] = arith.addf %[[ACC1]], %[[V2]] : f32
// CHECK:           linalg.yield %[[V3]] : f32
// CHECK:         return %[[G1]] : tensor<?x48xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @unknown_rows(%x: tensor<?x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>, %init: tensor<?x48xf32>)
    -> tensor<?x48xf32> {
  %ew = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%ew : tensor<48x64xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<?x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<?x48xf32>) -> tensor<?x48xf32>
  return %y : tensor<?x48xf32>
}

// -----

// The init is not zero: it is added as before.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @bias_as_init
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x64xf32>, %[[Q:[^ :]+]]: tensor<48x64xi8>, %[[S:[^ :]+]]: tensor<48xf32>, %[[INIT:[^ :]+]]: tensor<4x48xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X]], %[[Q]], %[[S]] : tensor<4x64xf32>, tensor<48x64xi8>, tensor<48xf32>)
// CHECK-SAME:      outs(%[[INIT]] : tensor<4x48xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V1:.+]] = arith.mulf %[[V]], %[[IN2]] : f32
// CHECK:           %[[V2:.+]] = arith.mulf %[[IN]], %[[V1]] : f32
// CHECK:           %[[V3:.+]] = arith.addf %[[ACC]], %[[V2]] : f32
// CHECK:           linalg.yield %[[V3]] : f32
// CHECK:         return %[[G]] : tensor<4x48xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
// PITFALL 17
func.func @bias_as_init(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>, %init: tensor<4x48xf32>)
    -> tensor<4x48xf32> {
  %ew = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%ew : tensor<48x64xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<4x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// One row in three dims: the result's unit dims come back.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1) -> (d1)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: func.func @unit_dims
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<1x1x64xf32>, %[[Q:[^ :]+]]: tensor<48x64xi8>, %[[S:[^ :]+]]: tensor<48xf32>, %[[INIT:[^ :]+]]: tensor<1x1x48xf32>
// CHECK-DAG:     %[[C:.+]] = tensor.collapse_shape %[[X]] {{\[\[}}0, 1, 2]] : tensor<1x1x64xf32> into tensor<64xf32>
// CHECK-DAG:     %[[C1:.+]] = tensor.collapse_shape %[[INIT]] {{\[\[}}0, 1, 2]] : tensor<1x1x48xf32> into tensor<48xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP2]]], iterator_types = ["parallel", "reduction"]}
// CHECK-SAME:      ins(%[[C]], %[[Q]], %[[S]] : tensor<64xf32>, tensor<48x64xi8>, tensor<48xf32>)
// CHECK-SAME:      outs(%[[C1]] : tensor<48xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V1:.+]] = arith.mulf %[[V]], %[[IN2]] : f32
// CHECK:           %[[V2:.+]] = arith.mulf %[[IN]], %[[V1]] : f32
// CHECK:           %[[V3:.+]] = arith.addf %[[ACC]], %[[V2]] : f32
// CHECK:           linalg.yield %[[V3]] : f32
// CHECK:         %[[E:.+]] = tensor.expand_shape %[[G]] {{\[\[}}0, 1, 2]] output_shape [1, 1, 48] : tensor<48xf32> into tensor<1x1x48xf32>
// CHECK:         return %[[E]] : tensor<1x1x48xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
// PITFALL 15
func.func @unit_dims(%x: tensor<1x1x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>, %init: tensor<1x1x48xf32>)
    -> tensor<1x1x48xf32> {
  %ew = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%ew : tensor<48x64xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  %b = tensor.expand_shape %t [[0, 1], [2]] output_shape [1, 64, 48] : tensor<64x48xf32> into tensor<1x64x48xf32>
  %y = linalg.batch_matmul ins(%x, %b : tensor<1x1x64xf32>, tensor<1x64x48xf32>)
      outs(%init : tensor<1x1x48xf32>) -> tensor<1x1x48xf32>
  return %y : tensor<1x1x48xf32>
}

// -----

// Sums without terms are the init.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @no_terms
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x0xf32>, %[[Q:[^ :]+]]: tensor<48x0xi8>, %[[S:[^ :]+]]: tensor<48xf32>, %[[INIT:[^ :]+]]: tensor<4x48xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X]], %[[Q]], %[[S]] : tensor<4x0xf32>, tensor<48x0xi8>, tensor<48xf32>)
// CHECK-SAME:      outs(%[[INIT]] : tensor<4x48xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V1:.+]] = arith.mulf %[[V]], %[[IN2]] : f32
// CHECK:           %[[V2:.+]] = arith.mulf %[[IN]], %[[V1]] : f32
// CHECK:           %[[V3:.+]] = arith.addf %[[ACC]], %[[V2]] : f32
// CHECK:           linalg.yield %[[V3]] : f32
// CHECK:         return %[[G]] : tensor<4x48xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
// PITFALL 15
func.func @no_terms(%x: tensor<4x0xf32>, %q: tensor<48x0xi8>, %s: tensor<48xf32>, %init: tensor<4x48xf32>)
    -> tensor<4x48xf32> {
  %ew = tensor.empty() : tensor<48x0xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x0xi8>, tensor<48xf32>) outs(%ew : tensor<48x0xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<48x0xf32>
  %f = tensor.empty() : tensor<0x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x0xf32>) outs(%f : tensor<0x48xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<4x0xf32>, tensor<0x48xf32>)
      outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// What somebody attached to the matmul stays on it.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @attributes
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x64xf32>, %[[Q:[^ :]+]]: tensor<48x64xi8>, %[[S:[^ :]+]]: tensor<48xf32>, %[[INIT:[^ :]+]]: tensor<4x48xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X]], %[[Q]], %[[S]] : tensor<4x64xf32>, tensor<48x64xi8>, tensor<48xf32>)
// CHECK-SAME:      outs(%[[INIT]] : tensor<4x48xf32>) attrs = {vendor.tile = 8 : i64}
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V1:.+]] = arith.mulf %[[V]], %[[IN2]] : f32
// CHECK:           %[[V2:.+]] = arith.mulf %[[IN]], %[[V1]] : f32
// CHECK:           %[[V3:.+]] = arith.addf %[[ACC]], %[[V2]] : f32
// CHECK:           linalg.yield %[[V3]] : f32
// CHECK:         return %[[G]] : tensor<4x48xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @attributes(%x: tensor<4x64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>, %init: tensor<4x48xf32>)
    -> tensor<4x48xf32> {
  %ew = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%ew : tensor<48x64xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  %y = linalg.matmul {vendor.tile = 8 : i64} ins(%x, %t : tensor<4x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  return %y : tensor<4x48xf32>
}

// -----

// `torch.mv` as a product and a sum: the sum takes both in.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1) -> (d0)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func.func @multiply_then_add
// CHECK-SAME:    %[[V:[^ :]+]]: tensor<64xf32>, %[[Q:[^ :]+]]: tensor<48x64xi8>, %[[S:[^ :]+]]: tensor<48xf32>, %[[INIT:[^ :]+]]: tensor<48xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP1]]], iterator_types = ["parallel", "reduction"]}
// CHECK-SAME:      ins(%[[Q]], %[[S]], %[[V]] : tensor<48x64xi8>, tensor<48xf32>, tensor<64xf32>)
// CHECK-SAME:      outs(%[[INIT]] : tensor<48xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: i8, %[[IN1:.+]]: f32, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V1:.+]] = arith.sitofp %[[IN]] : i8 to f32
// CHECK:           %[[V2:.+]] = arith.mulf %[[V1]], %[[IN1]] : f32
// CHECK:           %[[V3:.+]] = arith.mulf %[[V2]], %[[IN2]] : f32
// CHECK:           %[[V4:.+]] = arith.addf %[[ACC]], %[[V3]] : f32
// CHECK:           linalg.yield %[[V4]] : f32
// CHECK:         return %[[G]] : tensor<48xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @multiply_then_add(%v: tensor<64xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>, %init: tensor<48xf32>)
    -> tensor<48xf32> {
  %ew = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%ew : tensor<48x64xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<48x64xf32>
  %ep = tensor.empty() : tensor<48x64xf32>
  %p = linalg.generic {indexing_maps = [#id, affine_map<(d0, d1) -> (d1)>, #id],
    iterator_types = ["parallel", "parallel"]}
      ins(%w, %v : tensor<48x64xf32>, tensor<64xf32>) outs(%ep : tensor<48x64xf32>) {
  ^bb0(%a0: f32, %a1: f32, %out: f32):
    %m = arith.mulf %a0, %a1 : f32
    linalg.yield %m : f32
  } -> tensor<48x64xf32>
  %y = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%p : tensor<48x64xf32>) outs(%init : tensor<48xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %n = arith.addf %acc, %a : f32
    linalg.yield %n : f32
  } -> tensor<48xf32>
  return %y : tensor<48xf32>
}

// -----

// One weight, two matmuls, of which one has many rows: both read the one stored copy.

// CHECK-DAG:   #[[$MAP:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$MAP1:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[$MAP2:.+]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-DAG:   #[[$MAP3:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-DAG:   #[[$MAP4:.+]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-DAG:   #[[$MAP5:.+]] = affine_map<(d0, d1) -> (d1)>
// CHECK-DAG:   #[[$MAP6:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @shared
// CHECK-SAME:    %[[X:[^ :]+]]: tensor<4x64xf32>, %[[X2:[^ :]+]]: tensor<9x48xf32>, %[[Q:[^ :]+]]: tensor<48x64xi8>, %[[S:[^ :]+]]: tensor<48xf32>, %[[INIT:[^ :]+]]: tensor<4x48xf32>, %[[INIT2:[^ :]+]]: tensor<9x64xf32>
// CHECK:         %[[G:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP2]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X]], %[[Q]], %[[S]] : tensor<4x64xf32>, tensor<48x64xi8>, tensor<48xf32>)
// CHECK-SAME:      outs(%[[INIT]] : tensor<4x48xf32>)
// CHECK:         ^bb0(%[[IN:.+]]: f32, %[[IN1:.+]]: i8, %[[IN2:.+]]: f32, %[[ACC:.+]]: f32):
// CHECK:           %[[V:.+]] = arith.sitofp %[[IN1]] : i8 to f32
// CHECK:           %[[V1:.+]] = arith.mulf %[[V]], %[[IN2]] : f32
// CHECK:           %[[V2:.+]] = arith.mulf %[[IN]], %[[V1]] : f32
// CHECK:           %[[V3:.+]] = arith.addf %[[ACC]], %[[V2]] : f32
// CHECK:           linalg.yield %[[V3]] : f32
// CHECK:         %[[G1:.+]] = linalg.generic {indexing_maps = [#[[$MAP4]], #[[$MAP5]], #[[$MAP6]]], iterator_types = ["parallel", "parallel"]}
// CHECK-SAME:      ins(%[[Q]], %[[S]] : tensor<48x64xi8>, tensor<48xf32>)
// CHECK-SAME:      outs(%{{.+}} : tensor<64x48xf32>) attrs = {qtranspose.tile_fused}
// CHECK:         ^bb0(%[[IN3:.+]]: i8, %[[IN4:.+]]: f32, %[[ACC1:.+]]: f32):
// CHECK:           %[[V4:.+]] = arith.sitofp %[[IN3]] : i8 to f32
// CHECK:           %[[V5:.+]] = arith.mulf %[[V4]], %[[IN4]] : f32
// CHECK:           linalg.yield %[[V5]] : f32
// CHECK:         %[[G2:.+]] = linalg.generic {indexing_maps = [#[[$MAP]], #[[$MAP1]], #[[$MAP3]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME:      ins(%[[X2]], %[[G1]] : tensor<9x48xf32>, tensor<64x48xf32>)
// CHECK-SAME:      outs(%[[INIT2]] : tensor<9x64xf32>)
// CHECK:         ^bb0(%[[IN5:.+]]: f32, %[[IN6:.+]]: f32, %[[ACC2:.+]]: f32):
// CHECK:           %[[V6:.+]] = arith.mulf %[[IN5]], %[[IN6]] : f32
// CHECK:           %[[V7:.+]] = arith.addf %[[ACC2]], %[[V6]] : f32
// CHECK:           linalg.yield %[[V7]] : f32
// CHECK:         return %[[G]], %[[G2]] : tensor<4x48xf32>, tensor<9x64xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
// PITFALL 27
func.func @shared(%x: tensor<4x64xf32>, %x2: tensor<9x48xf32>, %q: tensor<48x64xi8>, %s: tensor<48xf32>,
    %init: tensor<4x48xf32>, %init2: tensor<9x64xf32>) -> (tensor<4x48xf32>, tensor<9x64xf32>) {
  %ew = tensor.empty() : tensor<48x64xf32>
  %w = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<48x64xi8>, tensor<48xf32>) outs(%ew : tensor<48x64xf32>) {
  ^bb0(%a0: i8, %a1: f32, %out: f32):
    %c = arith.sitofp %a0 : i8 to f32
    %p = arith.mulf %c, %a1 : f32
    linalg.yield %p : f32
  } -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%w : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<4x64xf32>, tensor<64x48xf32>)
      outs(%init : tensor<4x48xf32>) -> tensor<4x48xf32>
  %y2 = linalg.matmul ins(%x2, %w : tensor<9x48xf32>, tensor<48x64xf32>)
      outs(%init2 : tensor<9x64xf32>) -> tensor<9x64xf32>
  return %y, %y2 : tensor<4x48xf32>, tensor<9x64xf32>
}
