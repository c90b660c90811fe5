// RUN: qtranspose-opt %s --split-input-file --qtranspose-fold-transpose-into-dequant -o %t.once
// RUN: FileCheck %s --input-file=%t.once
// RUN: qtranspose-opt %t.once --split-input-file --qtranspose-fold-transpose-into-dequant -o %t.twice
// RUN: diff %t.once %t.twice
// RUN: mlir-opt %s --split-input-file --load-pass-plugin=%plugin \
// RUN:   --pass-pipeline='builtin.module(qtranspose-fold-transpose-into-dequant)' -o %t.plugin
// RUN: diff %t.once %t.plugin
// RUN: qtranspose-opt %s --split-input-file --qtranspose-fold-transpose-into-dequant --mlir-print-debuginfo \
// RUN:   | FileCheck %s --check-prefix=LOC
// RUN: qtranspose-opt %s --split-input-file --qtranspose-fold-transpose-into-dequant -o /dev/null \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// The form torch-mlir prints: one op per step, scale and zero point as columns.

// CHECK-DAG:   #[[$ID:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[$PERMUTED:.+]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-DAG:   #[[$COLUMN:.+]] = affine_map<(d0, d1) -> (d1, 0)>
// CHECK-LABEL: func.func @chain
// CHECK-SAME:    %[[Q:[^ :]+]]: tensor<48x64xi8>, %[[ZP:[^ :]+]]: tensor<48x1xf32>, %[[SCALE:[^ :]+]]: tensor<48x1xf32>
// CHECK-NOT:     tensor<48x64xf32>
// CHECK:         %[[W:.+]] = linalg.generic {indexing_maps = [#[[$PERMUTED]], #[[$ID]]]
// CHECK-SAME:      ins(%[[Q]] : tensor<48x64xi8>) outs(%{{.+}} : tensor<64x48xf32>)
// CHECK:           arith.sitofp
// CHECK:         %[[S:.+]] = linalg.generic {indexing_maps = [#[[$ID]], #[[$COLUMN]], #[[$ID]]]
// CHECK-SAME:      ins(%[[W]], %[[ZP]] : tensor<64x48xf32>, tensor<48x1xf32>)
// CHECK:           arith.subf
// CHECK:         %[[M:.+]] = linalg.generic {indexing_maps = [#[[$ID]], #[[$COLUMN]], #[[$ID]]]
// CHECK-SAME:      ins(%[[S]], %[[SCALE]] : tensor<64x48xf32>, tensor<48x1xf32>)
// CHECK:           arith.mulf
// CHECK-NOT:     linalg.transpose
// CHECK:         linalg.matmul ins(%{{.+}}, %[[M]] : tensor<1x64xf32>, tensor<64x48xf32>)
// LOC-LABEL:   func.func @chain
// LOC:           arith.mulf
// LOC:           } -> tensor<64x48xf32> loc(#[[MULF:.+]])
// LOC:         #[[OP:.+]] = loc("{{.*}}":[[#OPLINE:]]:8)
// LOC:         #[[TRANSPOSE:.+]] = loc("{{.*}}":[[#OPLINE + 19]]:8)
// LOC:         #[[MULF]] = loc(fused[#{{.+}}, #[[TRANSPOSE]]])
// REMARK:      remark: [Passed] fold-transpose {{.*}} Function=chain | {{.*}}3 op(s) write the transposed layout
#id = affine_map<(d0, d1) -> (d0, d1)>
#column = affine_map<(d0, d1) -> (d0, 0)>
func.func @chain(%x: tensor<1x64xf32>, %q: tensor<48x64xi8>, %zp: tensor<48x1xf32>, %scale: tensor<48x1xf32>,
                 %acc: tensor<1x48xf32>) -> tensor<1x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<48x64xi8>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<48x64xf32>
  %1 = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0, %zp : tensor<48x64xf32>, tensor<48x1xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: f32, %z: f32, %out: f32):
    %a = arith.subf %in, %z : f32
    linalg.yield %a : f32
  } -> tensor<48x64xf32>
  %2 = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%1, %scale : tensor<48x64xf32>, tensor<48x1xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: f32, %s: f32, %out: f32):
    %a = arith.mulf %in, %s : f32
    linalg.yield %a : f32
  } -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%2 : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<1x64xf32>, tensor<64x48xf32>) outs(%acc : tensor<1x48xf32>) -> tensor<1x48xf32>
  return %y : tensor<1x48xf32>
}

// -----

// All of it in one op; unsigned storage, integer zero point, rank-one scale, bf16 result, and a scalar in the body.

// CHECK-DAG:   #[[$ID:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[$PERMUTED:.+]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-DAG:   #[[$AXIS:.+]] = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func.func @fused_unsigned
// CHECK-SAME:    %[[Q:[^ :]+]]: tensor<48x64xi8>, %[[ZP:[^ :]+]]: tensor<48xi8>, %[[SCALE:[^ :]+]]: tensor<48xbf16>, %[[GAIN:[^ :]+]]: bf16
// CHECK:         %[[W:.+]] = linalg.generic {indexing_maps = [#[[$PERMUTED]], #[[$AXIS]], #[[$AXIS]], #[[$ID]]]
// CHECK-SAME:      ins(%[[Q]], %[[ZP]], %[[SCALE]] : tensor<48x64xi8>, tensor<48xi8>, tensor<48xbf16>)
// CHECK-SAME:      outs(%{{.+}} : tensor<64x48xbf16>)
// CHECK:           %[[A:.+]] = arith.extui %{{.+}} : i8 to i16
// CHECK:           %[[B:.+]] = arith.extui %{{.+}} : i8 to i16
// CHECK:           %[[C:.+]] = arith.subi %[[A]], %[[B]]
// CHECK:           %[[D:.+]] = arith.sitofp %[[C]] : i16 to bf16
// CHECK:           arith.mulf %{{.+}}, %[[GAIN]]
// CHECK-NOT:     linalg.transpose
// CHECK:         return %[[W]]
#id = affine_map<(d0, d1) -> (d0, d1)>
#axis = affine_map<(d0, d1) -> (d0)>
// PITFALL 22
func.func @fused_unsigned(%q: tensor<48x64xi8>, %zp: tensor<48xi8>, %scale: tensor<48xbf16>, %gain: bf16)
    -> tensor<64x48xbf16> {
  %e = tensor.empty() : tensor<48x64xbf16>
  %0 = linalg.generic {indexing_maps = [#id, #axis, #axis, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %zp, %scale : tensor<48x64xi8>, tensor<48xi8>, tensor<48xbf16>) outs(%e : tensor<48x64xbf16>) {
  ^bb0(%in: i8, %z: i8, %s: bf16, %out: bf16):
    %a = arith.extui %in : i8 to i16
    %b = arith.extui %z : i8 to i16
    %c = arith.subi %a, %b : i16
    %d = arith.sitofp %c : i16 to bf16
    %f = arith.mulf %d, %s : bf16
    %g = arith.mulf %f, %gain : bf16
    linalg.yield %g : bf16
  } -> tensor<48x64xbf16>
  %f = tensor.empty() : tensor<64x48xbf16>
  %t = linalg.transpose ins(%0 : tensor<48x64xbf16>) outs(%f : tensor<64x48xbf16>) permutation = [1, 0]
  return %t : tensor<64x48xbf16>
}

// -----

// Three distinct sizes: a scale along dimension 0 moves with the inverse permutation.

// CHECK-DAG:   #[[$Q120:.+]] = affine_map<(d0, d1, d2) -> (d2, d0, d1)>
// CHECK-DAG:   #[[$ID:.+]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG:   #[[$FIRST120:.+]] = affine_map<(d0, d1, d2) -> (d2)>
// CHECK-DAG:   #[[$PAIR120:.+]] = affine_map<(d0, d1, d2) -> (d2, 0, d1)>
// CHECK-LABEL: func.func @perm_120
// CHECK:         %[[W:.+]] = linalg.generic {indexing_maps = [#[[$Q120]], #[[$FIRST120]], #[[$PAIR120]], #[[$ID]]]
// CHECK-SAME:      ins(%{{.+}} : tensor<2x3x5xi8>, tensor<2xi8>, tensor<2x1x5xf16>) outs(%{{.+}} : tensor<3x5x2xf16>)
// CHECK:         return %[[W]]
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#first = affine_map<(d0, d1, d2) -> (d0)>
#pair = affine_map<(d0, d1, d2) -> (d0, 0, d2)>
// PITFALL 10
func.func @perm_120(%q: tensor<2x3x5xi8>, %zp: tensor<2xi8>, %scale: tensor<2x1x5xf16>) -> tensor<3x5x2xf16> {
  %e = tensor.empty() : tensor<2x3x5xf16>
  %0 = linalg.generic {indexing_maps = [#id, #first, #pair, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q, %zp, %scale : tensor<2x3x5xi8>, tensor<2xi8>, tensor<2x1x5xf16>) outs(%e : tensor<2x3x5xf16>) {
  ^bb0(%in: i8, %z: i8, %s: f16, %out: f16):
    %a = arith.subi %in, %z : i8
    %b = arith.sitofp %a : i8 to f16
    %c = arith.mulf %b, %s : f16
    linalg.yield %c : f16
  } -> tensor<2x3x5xf16>
  %f = tensor.empty() : tensor<3x5x2xf16>
  %t = linalg.transpose ins(%0 : tensor<2x3x5xf16>) outs(%f : tensor<3x5x2xf16>) permutation = [1, 2, 0]
  return %t : tensor<3x5x2xf16>
}

// -----

// CHECK-DAG:   #[[$Q201:.+]] = affine_map<(d0, d1, d2) -> (d1, d2, d0)>
// CHECK-DAG:   #[[$ID:.+]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG:   #[[$FIRST201:.+]] = affine_map<(d0, d1, d2) -> (d1)>
// CHECK-LABEL: func.func @perm_201
// CHECK:         linalg.generic {indexing_maps = [#[[$Q201]], #[[$FIRST201]], #[[$ID]]]
// CHECK-SAME:      ins(%{{.+}} : tensor<2x3x5xi8>, tensor<2xf64>) outs(%{{.+}} : tensor<5x2x3xf64>)
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#first = affine_map<(d0, d1, d2) -> (d0)>
// PITFALL 10
func.func @perm_201(%q: tensor<2x3x5xi8>, %scale: tensor<2xf64>) -> tensor<5x2x3xf64> {
  %e = tensor.empty() : tensor<2x3x5xf64>
  %0 = linalg.generic {indexing_maps = [#id, #first, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q, %scale : tensor<2x3x5xi8>, tensor<2xf64>) outs(%e : tensor<2x3x5xf64>) {
  ^bb0(%in: i8, %s: f64, %out: f64):
    %b = arith.sitofp %in : i8 to f64
    %c = arith.mulf %b, %s : f64
    linalg.yield %c : f64
  } -> tensor<2x3x5xf64>
  %f = tensor.empty() : tensor<5x2x3xf64>
  %t = linalg.transpose ins(%0 : tensor<2x3x5xf64>) outs(%f : tensor<5x2x3xf64>) permutation = [2, 0, 1]
  return %t : tensor<5x2x3xf64>
}

// -----

// Dynamic sizes come from the replaced ops' outs, in the permuted order; a `tensor.dim` of the old value does not keep
// it alive.

// CHECK-DAG:   #[[$ID:.+]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG:   #[[$PERMUTED:.+]] = affine_map<(d0, d1, d2) -> (d1, d2, d0)>
// CHECK-LABEL: func.func @dynamic
// CHECK-SAME:    %[[Q:[^ :]+]]: tensor<?x?x?xi8>, %[[A:[^ :]+]]: index, %[[B:[^ :]+]]: index, %[[C:[^ :]+]]: index, %[[DEST:[^ :]+]]: tensor<?x?x?xf32>
// CHECK:         %[[E0:.+]] = tensor.empty(%[[C]], %[[A]], %[[B]]) : tensor<?x?x?xf32>
// CHECK:         %[[G0:.+]] = linalg.generic {indexing_maps = [#[[$PERMUTED]], #[[$ID]]]
// CHECK-SAME:      ins(%[[Q]] : {{.+}}) outs(%[[E0]] :
// CHECK-DAG:     %[[D2:.+]] = tensor.dim %[[DEST]], %c2
// CHECK-DAG:     %[[D0:.+]] = tensor.dim %[[DEST]], %c0
// CHECK-DAG:     %[[D1:.+]] = tensor.dim %[[DEST]], %c1
// CHECK:         %[[E1:.+]] = tensor.empty(%[[D2]], %[[D0]], %[[D1]]) : tensor<?x?x?xf32>
// CHECK:         %[[G1:.+]] = linalg.generic {indexing_maps = [#[[$ID]], #[[$ID]]]
// CHECK-SAME:      ins(%[[G0]] : {{.+}}) outs(%[[E1]] :
// CHECK-NOT:     linalg.{{generic|transpose}}
// CHECK:         return %[[G1]], %{{.+}} : tensor<?x?x?xf32>, index
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// PITFALL 16
func.func @dynamic(%q: tensor<?x?x?xi8>, %a: index, %b: index, %c: index, %dest: tensor<?x?x?xf32>)
    -> (tensor<?x?x?xf32>, index) {
  %c1 = arith.constant 1 : index
  %half = arith.constant 5.000000e-01 : f32
  %e = tensor.empty(%a, %b, %c) : tensor<?x?x?xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q : tensor<?x?x?xi8>) outs(%e : tensor<?x?x?xf32>) {
  ^bb0(%in: i8, %out: f32):
    %v = arith.uitofp %in : i8 to f32
    linalg.yield %v : f32
  } -> tensor<?x?x?xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%0 : tensor<?x?x?xf32>) outs(%dest : tensor<?x?x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %v = arith.mulf %in, %half : f32
    linalg.yield %v : f32
  } -> tensor<?x?x?xf32>
  %dim = tensor.dim %1, %c1 : tensor<?x?x?xf32>
  %f = tensor.empty(%c, %a, %b) : tensor<?x?x?xf32>
  %t = linalg.transpose ins(%1 : tensor<?x?x?xf32>) outs(%f : tensor<?x?x?xf32>) permutation = [2, 0, 1]
  return %t, %dim : tensor<?x?x?xf32>, index
}

// -----

// A copying generic is a transpose, whichever of its maps is permuted. A broadcast scale is re-indexed, not transposed.

// CHECK-DAG:   #[[$ID:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[$PERMUTED:.+]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-DAG:   #[[$COLUMN:.+]] = affine_map<(d0, d1) -> (d1, 0)>
// CHECK-LABEL: func.func @copying_generic
// CHECK-SAME:    %[[Q:[^ :]+]]: tensor<48x64xi8>, %[[SCALE:[^ :]+]]: tensor<48x1xf32>
// CHECK:         %[[A:.+]] = linalg.generic {indexing_maps = [#[[$PERMUTED]], #[[$ID]]]
// CHECK-SAME:      ins(%[[Q]] :
// CHECK:         %[[B:.+]] = linalg.generic {indexing_maps = [#[[$COLUMN]], #[[$ID]]]
// CHECK-SAME:      ins(%[[SCALE]] : {{.+}}) outs(%{{.+}} : tensor<64x48xf32>)
// CHECK:         %[[C:.+]] = linalg.generic {indexing_maps = [#[[$ID]], #[[$ID]], #[[$ID]]]
// CHECK-SAME:      ins(%[[A]], %[[B]] :
// CHECK-NOT:     linalg.{{generic|transpose}}
// CHECK:         return %[[C]]
#id = affine_map<(d0, d1) -> (d0, d1)>
#column = affine_map<(d0, d1) -> (d0, 0)>
#permuted = affine_map<(d0, d1) -> (d1, d0)>
func.func @copying_generic(%q: tensor<48x64xi8>, %scale: tensor<48x1xf32>) -> tensor<64x48xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<48x64xi8>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<48x64xf32>
  %1 = linalg.generic {indexing_maps = [#column, #id], iterator_types = ["parallel", "parallel"]}
      ins(%scale : tensor<48x1xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<48x64xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0, %1 : tensor<48x64xf32>, tensor<48x64xf32>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: f32, %s: f32, %out: f32):
    %a = arith.mulf %in, %s : f32
    linalg.yield %a : f32
  } -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %3 = linalg.generic {indexing_maps = [#id, #permuted], iterator_types = ["parallel", "parallel"]}
      ins(%2 : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<64x48xf32>
  return %3 : tensor<64x48xf32>
}

// -----

// What lower-quant-ops prints: `arith` on tensors, parameters as splats. A scalar has no layout.

// CHECK-DAG:   #[[$ID:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[$PERMUTED:.+]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-DAG:   #[[$SCALAR:.+]] = affine_map<(d0, d1) -> ()>
// CHECK-LABEL: func.func @tensor_ops
// CHECK-SAME:    %[[Q:[^ :]+]]: tensor<12x32xi8>, %[[SCALE:[^ :]+]]: f32
// CHECK:         %[[A:.+]] = linalg.generic {indexing_maps = [#[[$PERMUTED]], #[[$ID]]]
// CHECK-SAME:      ins(%[[Q]] : tensor<12x32xi8>) outs(%{{.+}} : tensor<32x12xf32>)
// CHECK-NEXT:    ^bb0(%[[IN:[^ :]+]]: i8, %{{.+}}: f32):
// CHECK-NEXT:      %[[V:.+]] = arith.uitofp %[[IN]] : i8 to f32
// CHECK-NEXT:      linalg.yield %[[V]]
// CHECK:         %[[ZP:.+]] = arith.constant 1.280000e+02 : f32
// CHECK:         %[[B:.+]] = linalg.generic {indexing_maps = [#[[$ID]], #[[$SCALAR]], #[[$ID]]]
// CHECK-SAME:      ins(%[[A]], %[[ZP]] : tensor<32x12xf32>, f32)
// CHECK:           arith.subf {{.+}} fastmath<contract>
// CHECK:         %[[C:.+]] = linalg.generic {indexing_maps = [#[[$ID]], #[[$SCALAR]], #[[$ID]]]
// CHECK-SAME:      ins(%[[B]], %[[SCALE]] : tensor<32x12xf32>, f32)
// CHECK-NOT:     tensor<12x32xf32>
// CHECK:         return %[[C]]
func.func @tensor_ops(%q: tensor<12x32xi8>, %scale: f32) -> tensor<32x12xf32> {
  %zp = arith.constant dense<1.280000e+02> : tensor<12x32xf32>
  %splat = tensor.splat %scale : tensor<12x32xf32>
  %0 = arith.uitofp %q : tensor<12x32xi8> to tensor<12x32xf32>
  %1 = arith.subf %0, %zp fastmath<contract> : tensor<12x32xf32>
  %2 = arith.mulf %1, %splat : tensor<12x32xf32>
  %f = tensor.empty() : tensor<32x12xf32>
  %t = linalg.transpose ins(%2 : tensor<12x32xf32>) outs(%f : tensor<32x12xf32>) permutation = [1, 0]
  return %t : tensor<32x12xf32>
}

// -----

// Named elementwise ops; an 8-bit float; a rank-zero scale; a type with a zero-size dimension.

// CHECK-DAG:   #[[$ID:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[$PERMUTED:.+]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-DAG:   #[[$SCALAR:.+]] = affine_map<(d0, d1) -> ()>
// CHECK-LABEL: func.func @named_ops
// CHECK-SAME:    %[[Q:[^ :]+]]: tensor<0x8xf8E4M3FN>, %[[SCALE:[^ :]+]]: tensor<f32>, %[[FULL:[^ :]+]]: tensor<0x8xf32>
// CHECK:         %[[A:.+]] = linalg.generic {indexing_maps = [#[[$PERMUTED]], #[[$SCALAR]], #[[$ID]]]
// CHECK-SAME:      ins(%[[Q]], %[[SCALE]] : tensor<0x8xf8E4M3FN>, tensor<f32>) outs(%{{.+}} : tensor<8x0xf32>)
// CHECK:         %[[B:.+]] = linalg.generic {indexing_maps = [#[[$ID]], #[[$PERMUTED]], #[[$ID]]]
// CHECK-SAME:      ins(%[[A]], %[[FULL]] : tensor<8x0xf32>, tensor<0x8xf32>) outs(%{{.+}} : tensor<8x0xf32>)
// CHECK:           arith.mulf
// CHECK-NOT:     linalg.transpose
// CHECK:         return %[[B]]
#id = affine_map<(d0, d1) -> (d0, d1)>
#scalar = affine_map<(d0, d1) -> ()>
func.func @named_ops(%q: tensor<0x8xf8E4M3FN>, %scale: tensor<f32>, %full: tensor<0x8xf32>) -> tensor<8x0xf32> {
  %e = tensor.empty() : tensor<0x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #scalar, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %scale : tensor<0x8xf8E4M3FN>, tensor<f32>) outs(%e : tensor<0x8xf32>) {
  ^bb0(%in: f8E4M3FN, %s: f32, %out: f32):
    %a = arith.extf %in : f8E4M3FN to f32
    %b = arith.mulf %a, %s : f32
    linalg.yield %b : f32
  } -> tensor<0x8xf32>
  %1 = linalg.mul ins(%0, %full : tensor<0x8xf32>, tensor<0x8xf32>) outs(%e : tensor<0x8xf32>) -> tensor<0x8xf32>
  %f = tensor.empty() : tensor<8x0xf32>
  %t = linalg.transpose ins(%1 : tensor<0x8xf32>) outs(%f : tensor<8x0xf32>) permutation = [1, 0]
  return %t : tensor<8x0xf32>
}

// -----

// The stored tensor is transposed first, dequantized after. An integer dequantization.

// CHECK-DAG:   #[[$ID:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[$PERMUTED:.+]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-DAG:   #[[$AXIS:.+]] = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func.func @stored_transposed
// CHECK-SAME:    %[[Q:[^ :]+]]: tensor<48x64xi8>, %[[ZP:[^ :]+]]: tensor<48xi32>
// CHECK-NOT:     tensor<64x48xi8>
// CHECK:         %[[W:.+]] = linalg.generic {indexing_maps = [#[[$PERMUTED]], #[[$AXIS]], #[[$ID]]]
// CHECK-SAME:      ins(%[[Q]], %[[ZP]] : tensor<48x64xi8>, tensor<48xi32>) outs(%{{.+}} : tensor<64x48xi32>)
// CHECK:           arith.extsi
// CHECK-NOT:     linalg.{{generic|transpose}}
// CHECK:         return %[[W]]
#id = affine_map<(d0, d1) -> (d0, d1)>
#axis = affine_map<(d0, d1) -> (d1)>
func.func @stored_transposed(%q: tensor<48x64xi8>, %zp: tensor<48xi32>) -> tensor<64x48xi32> {
  %f = tensor.empty() : tensor<64x48xi8>
  %t = linalg.transpose ins(%q : tensor<48x64xi8>) outs(%f : tensor<64x48xi8>) permutation = [1, 0]
  %e = tensor.empty() : tensor<64x48xi32>
  %0 = linalg.generic {indexing_maps = [#id, #axis, #id], iterator_types = ["parallel", "parallel"]}
      ins(%t, %zp : tensor<64x48xi8>, tensor<48xi32>) outs(%e : tensor<64x48xi32>) {
  ^bb0(%in: i8, %z: i32, %out: i32):
    %a = arith.extsi %in : i8 to i32
    %b = arith.subi %a, %z : i32
    linalg.yield %b : i32
  } -> tensor<64x48xi32>
  return %0 : tensor<64x48xi32>
}

// -----

// A transposed chain is broadcast over a batch before the batch is permuted: the chain below follows.

// CHECK-DAG:   #[[$IN:.+]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-DAG:   #[[$OUT:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[$BCAST:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[$ID:.+]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-LABEL: func.func @broadcast
// CHECK:         %[[W:.+]] = linalg.generic {indexing_maps = [#[[$IN]], #[[$OUT]]]
// CHECK:           arith.sitofp
// CHECK:         linalg.generic {indexing_maps = [#[[$BCAST]], #[[$ID]]]
// CHECK-SAME:      ins(%[[W]] : tensor<5x3xf32>) outs(%{{.+}} : tensor<2x5x3xf32>)
#id2 = affine_map<(d0, d1) -> (d0, d1)>
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#bcast = affine_map<(d0, d1, d2) -> (d1, d2)>
// PITFALL 14
func.func @broadcast(%q: tensor<3x5xi8>) -> tensor<2x5x3xf32> {
  %e = tensor.empty() : tensor<3x5xf32>
  %0 = linalg.generic {indexing_maps = [#id2, #id2], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %b = tensor.empty() : tensor<2x3x5xf32>
  %1 = linalg.generic {indexing_maps = [#bcast, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%0 : tensor<3x5xf32>) outs(%b : tensor<2x3x5xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<2x3x5xf32>
  %f = tensor.empty() : tensor<2x5x3xf32>
  %t = linalg.transpose ins(%1 : tensor<2x3x5xf32>) outs(%f : tensor<2x5x3xf32>) permutation = [0, 2, 1]
  return %t : tensor<2x5x3xf32>
}

// -----

// Transposes that meet cancel, or are folded together; identities are forwarded, whatever they move.

// CHECK-LABEL: func.func @cancel
// CHECK-SAME:    %[[A:[^ :]+]]: tensor<3x5xf32>, %[[B:[^ :]+]]: tensor<?x5xf32>, %[[C:[^ :]+]]: tensor<7xf32, "enc">
// CHECK-NEXT:    return %[[A]], %[[B]], %[[C]]
// REMARK-DAG:  [Passed] cancel-transposes {{.*}} Function=cancel
// REMARK-DAG:  [Passed] forward-identity {{.*}} Function=cancel
// PITFALL 20
func.func @cancel(%a: tensor<3x5xf32>, %b: tensor<?x5xf32>, %c: tensor<7xf32, "enc">)
    -> (tensor<3x5xf32>, tensor<?x5xf32>, tensor<7xf32, "enc">) {
  %f = tensor.empty() : tensor<5x3xf32>
  %0 = linalg.transpose ins(%a : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %e = tensor.empty() : tensor<3x5xf32>
  %1 = linalg.transpose ins(%0 : tensor<5x3xf32>) outs(%e : tensor<3x5xf32>) permutation = [1, 0]
  %2 = linalg.transpose ins(%b : tensor<?x5xf32>) outs(%b : tensor<?x5xf32>) permutation = [0, 1]
  %3 = linalg.transpose ins(%c : tensor<7xf32, "enc">) outs(%c : tensor<7xf32, "enc">) permutation = [0]
  return %1, %2, %3 : tensor<3x5xf32>, tensor<?x5xf32>, tensor<7xf32, "enc">
}

// -----

// CHECK-LABEL: func.func @merge
// CHECK-SAME:    %[[A:[^ :]+]]: tensor<2x3x5xf32>
// CHECK:         %[[T:.+]] = linalg.transpose ins(%[[A]] : tensor<2x3x5xf32>) outs(%{{.+}} : tensor<5x2x3xf32>) permutation = [2, 0, 1]
// CHECK-NOT:     linalg.{{generic|transpose}}
// CHECK:         return %[[T]]
// REMARK:      [Passed] merge-transposes {{.*}} Function=merge
func.func @merge(%a: tensor<2x3x5xf32>) -> tensor<5x2x3xf32> {
  %f = tensor.empty() : tensor<3x5x2xf32>
  %0 = linalg.transpose ins(%a : tensor<2x3x5xf32>) outs(%f : tensor<3x5x2xf32>) permutation = [1, 2, 0]
  %e = tensor.empty() : tensor<5x2x3xf32>
  %1 = linalg.transpose ins(%0 : tensor<3x5x2xf32>) outs(%e : tensor<5x2x3xf32>) permutation = [1, 2, 0]
  return %1 : tensor<5x2x3xf32>
}

// -----

// A transpose in the middle of the chain and one at its end make the identity.

// CHECK-DAG:   #[[$ID:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[$AXIS:.+]] = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func.func @in_the_middle
// CHECK:         linalg.generic {indexing_maps = [#[[$ID]], #[[$ID]]]
// CHECK:           arith.sitofp
// CHECK:         linalg.generic {indexing_maps = [#[[$ID]], #[[$AXIS]], #[[$ID]]]
// CHECK-SAME:      tensor<48x64xf32>, tensor<64xf32>) outs(%{{.+}} : tensor<48x64xf32>)
// CHECK-NOT:     linalg.transpose
#id = affine_map<(d0, d1) -> (d0, d1)>
#axis = affine_map<(d0, d1) -> (d0)>
func.func @in_the_middle(%q: tensor<48x64xi8>, %scale: tensor<64xf32>) -> tensor<48x64xf32> {
  %e = tensor.empty() : tensor<48x64xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<48x64xi8>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%0 : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  %1 = linalg.generic {indexing_maps = [#id, #axis, #id], iterator_types = ["parallel", "parallel"]}
      ins(%t, %scale : tensor<64x48xf32>, tensor<64xf32>) outs(%f : tensor<64x48xf32>) {
  ^bb0(%in: f32, %s: f32, %out: f32):
    %a = arith.mulf %in, %s : f32
    linalg.yield %a : f32
  } -> tensor<64x48xf32>
  %u = linalg.transpose ins(%1 : tensor<64x48xf32>) outs(%e : tensor<48x64xf32>) permutation = [1, 0]
  return %u : tensor<48x64xf32>
}

// -----

// Attributes of the op and of the transpose live on; so do `doc` and the encoding of the result. Dead ops and duplicate
// constants are none of our business.

// CHECK-LABEL: func.func @attributes
// CHECK-DAG:     arith.constant 7 : i32
// CHECK-DAG:     arith.constant 7 : i32
// CHECK:         tensor.empty() : tensor<64x48xf32, "enc">
// CHECK:         linalg.generic {doc = "dequantize", indexing_maps
// CHECK-SAME:      outs(%{{.+}} : tensor<64x48xf32, "enc">)
// CHECK-SAME:      attrs =  {layer = 3 : i32, tag = "w"}
// CHECK-NOT:     linalg.transpose
#id = affine_map<(d0, d1) -> (d0, d1)>
// PITFALL 21
func.func @attributes(%q: tensor<48x64xi8>) -> tensor<64x48xf32, "enc"> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<48x64xf32>
  %0 = linalg.generic {doc = "dequantize", indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<48x64xi8>) outs(%e : tensor<48x64xf32>) attrs = {tag = "w"} {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32, "enc">
  %t = linalg.transpose ins(%0 : tensor<48x64xf32>) outs(%f : tensor<64x48xf32, "enc">) permutation = [1, 0] {layer = 3 : i32}
  return %t : tensor<64x48xf32, "enc">
}

// -----

// The same transpose twice, one chain; the transpose stands in a loop, the chain does not.

// CHECK-LABEL: func.func @twins
// CHECK:         %[[W:.+]] = linalg.generic
// CHECK-SAME:      outs(%{{.+}} : tensor<64x48xf32>)
// CHECK:         scf.for
// CHECK-NOT:       linalg.transpose
// CHECK:           tensor.extract %[[W]]
// CHECK:         return %[[W]],
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @twins(%q: tensor<48x64xi8>, %n: index) -> (tensor<64x48xf32>, f32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<48x64xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<48x64xi8>) outs(%e : tensor<48x64xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<48x64xf32>
  %f = tensor.empty() : tensor<64x48xf32>
  %t = linalg.transpose ins(%0 : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%s = %zero) -> f32 {
    %u = linalg.transpose ins(%0 : tensor<48x64xf32>) outs(%f : tensor<64x48xf32>) permutation = [1, 0]
    %v = tensor.extract %u[%i, %c0] : tensor<64x48xf32>
    %r = arith.addf %s, %v : f32
    scf.yield %r : f32
  }
  return %t, %sum : tensor<64x48xf32>, f32
}

// -----

// A copy of what is stored takes up the transpose, and is folded in turn.

// CHECK-LABEL: func.func @stored_copy(
// CHECK-SAME:      %[[Q:.*]]: tensor<4x3xi16>, %[[S:.*]]: tensor<4xf32>
// CHECK-NOT:     tensor<3x4xi16>
// CHECK:         linalg.generic
// CHECK-SAME:      ins(%[[Q]], %[[S]] :
// CHECK:         arith.sitofp
func.func @stored_copy(%q: tensor<4x3xi16>, %s: tensor<4xf32>) -> tensor<3x4xf32> {
  %eq = tensor.empty() : tensor<4x3xi16>
  %c = linalg.generic {indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n, k)>],
      iterator_types = ["parallel", "parallel"]} ins(%q : tensor<4x3xi16>) outs(%eq : tensor<4x3xi16>) {
  ^bb0(%a: i16, %o: i16):
    linalg.yield %a : i16
  } -> tensor<4x3xi16>
  %e = tensor.empty() : tensor<4x3xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n)>,
      affine_map<(n, k) -> (n, k)>], iterator_types = ["parallel", "parallel"]}
      ins(%c, %s : tensor<4x3xi16>, tensor<4xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%a: i16, %b: f32, %o: f32):
    %f = arith.sitofp %a : i16 to f32
    %r = arith.mulf %f, %b : f32
    linalg.yield %r : f32
  } -> tensor<4x3xf32>
  %et = tensor.empty() : tensor<3x4xf32>
  %t = linalg.transpose ins(%w : tensor<4x3xf32>) outs(%et : tensor<3x4xf32>) permutation = [1, 0]
  return %t : tensor<3x4xf32>
}
