// A private function dequantizes and transposes; its caller transposes back. Neither transpose stays.

// RUN: qtranspose-opt %s --split-input-file --qtranspose-fold-transpose-into-dequant -o %t.once
// RUN: FileCheck %s --input-file=%t.once
// RUN: qtranspose-opt %t.once --split-input-file --qtranspose-fold-transpose-into-dequant -o %t.twice
// RUN: diff %t.once %t.twice
// RUN: qtranspose-opt %s --split-input-file --qtranspose-fold-transpose-into-dequant -o /dev/null \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// Nobody else uses the function: it is gone.

// CHECK-DAG:   #[[$ID:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[$ROW:.+]] = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: func.func private @dequantize_transposed(
// CHECK-SAME:      %[[Q:[^ :]+]]: tensor<3x5xi8> {bufferization.writable = false}, %{{.+}}: tensor<3xf32>) -> (tensor<3x5xf32> {llvm.noundef})
// CHECK-SAME:      attributes {no_inline}
// CHECK:         %[[W:.+]] = linalg.generic {indexing_maps = [#[[$ID]], #[[$ROW]], #[[$ID]]]
// CHECK-NOT:     linalg.transpose
// CHECK:         return %[[W]] : tensor<3x5xf32>
// CHECK-NOT:   @dequantize(
// CHECK-LABEL: func.func @layer
// CHECK:         %[[R:.+]] = call @dequantize_transposed(%{{.+}}, %{{.+}}) {tag = "call"} : (tensor<3x5xi8>, tensor<3xf32>) -> tensor<3x5xf32>
// CHECK-NOT:     linalg.transpose
// CHECK:         linalg.matmul ins(%{{.+}}, %[[R]] :
// REMARK:      [Passed] fold-into-callee {{.*}} Function=layer | Remark="'dequantize_transposed' returns it transposed"
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func private @dequantize(%q: tensor<3x5xi8> {bufferization.writable = false}, %scale: tensor<3xf32>) -> (tensor<5x3xf32> {llvm.noundef})
    attributes {no_inline} {
  %e = tensor.empty() : tensor<3x5xf32>
  %0 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %scale : tensor<3x5xi8>, tensor<3xf32>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %s: f32, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    %b = arith.mulf %a, %s : f32
    linalg.yield %b : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%0 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}
func.func @layer(%x: tensor<7x3xf32>, %q: tensor<3x5xi8>, %scale: tensor<3xf32>, %acc: tensor<7x5xf32>) -> tensor<7x5xf32> {
  %w = call @dequantize(%q, %scale) {tag = "call"} : (tensor<3x5xi8>, tensor<3xf32>) -> tensor<5x3xf32>
  %f = tensor.empty() : tensor<3x5xf32>
  %t = linalg.transpose ins(%w : tensor<5x3xf32>) outs(%f : tensor<3x5xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<7x3xf32>, tensor<3x5xf32>) outs(%acc : tensor<7x5xf32>) -> tensor<7x5xf32>
  return %y : tensor<7x5xf32>
}

// -----

// Others use the function, so it stays; two calls share one copy; the new name avoids one that is taken. A result that
// is also used untransposed keeps its call.

// CHECK-LABEL: func.func private @dequantize(
// CHECK-SAME:      -> (tensor<5x3xf32>, index)
// CHECK-LABEL: func.func private @dequantize_transposed_0(
// CHECK-SAME:      -> (tensor<3x5xf32>, index)
// CHECK-LABEL: func.func private @dequantize_transposed()
// CHECK-LABEL: func.func @layers
// CHECK:         %[[A:.+]]:2 = call @dequantize_transposed_0(
// CHECK:         %[[B:.+]]:2 = call @dequantize_transposed_0(
// CHECK:         %[[C:.+]]:2 = call @dequantize(
// CHECK:         %[[D:.+]]:2 = call @dequantize(
// CHECK-NOT:     linalg.transpose
// CHECK:         return %[[A]]#0, %[[A]]#1, %[[B]]#0, %[[C]]#0, %[[D]]#0
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func private @dequantize(%q: tensor<3x5xi8>) -> (tensor<5x3xf32>, index) {
  %c3 = arith.constant 3 : index
  %e = tensor.empty() : tensor<3x5xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%0 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t, %c3 : tensor<5x3xf32>, index
}
func.func private @dequantize_transposed()
func.func @layers(%q: tensor<3x5xi8>, %p: tensor<3x5xi8>)
    -> (tensor<3x5xf32>, index, tensor<3x5xf32>, tensor<5x3xf32>, tensor<5x3xf32>) {
  %f = tensor.empty() : tensor<3x5xf32>
  %w:2 = call @dequantize(%q) : (tensor<3x5xi8>) -> (tensor<5x3xf32>, index)
  %t = linalg.transpose ins(%w#0 : tensor<5x3xf32>) outs(%f : tensor<3x5xf32>) permutation = [1, 0]
  %v:2 = call @dequantize(%p) : (tensor<3x5xi8>) -> (tensor<5x3xf32>, index)
  %u = linalg.transpose ins(%v#0 : tensor<5x3xf32>) outs(%f : tensor<3x5xf32>) permutation = [1, 0]
  %z:2 = call @dequantize(%p) : (tensor<3x5xi8>) -> (tensor<5x3xf32>, index)
  return %t, %w#1, %u, %v#0, %z#0 : tensor<3x5xf32>, index, tensor<3x5xf32>, tensor<5x3xf32>, tensor<5x3xf32>
}

// -----

// The function does not transpose: its copy writes the layout that the caller wants, with dynamic sizes of its own.

// CHECK-DAG:   #[[$IN:.+]] = affine_map<(d0, d1, d2) -> (d1, d2, d0)>
// CHECK-DAG:   #[[$OUT:.+]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-LABEL: func.func private @dequantize_transposed(
// CHECK-SAME:      -> tensor<?x2x?xf32>
// CHECK-DAG:     %[[D2:.+]] = tensor.dim %{{.+}}, %c2
// CHECK-DAG:     %[[D1:.+]] = tensor.dim %{{.+}}, %c1
// CHECK:         tensor.empty(%[[D2]], %[[D1]]) : tensor<?x2x?xf32>
// CHECK:         linalg.generic {indexing_maps = [#[[$IN]], #[[$OUT]]]
// CHECK-NOT:   linalg.transpose
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func private @dequantize(%q: tensor<2x?x?xi8>, %e: tensor<2x?x?xf32>) -> tensor<2x?x?xf32> {
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q : tensor<2x?x?xi8>) outs(%e : tensor<2x?x?xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<2x?x?xf32>
  return %0 : tensor<2x?x?xf32>
}
func.func @caller(%q: tensor<2x?x?xi8>, %e: tensor<2x?x?xf32>, %f: tensor<?x2x?xf32>) -> tensor<?x2x?xf32> {
  %w = call @dequantize(%q, %e) : (tensor<2x?x?xi8>, tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
  %t = linalg.transpose ins(%w : tensor<2x?x?xf32>) outs(%f : tensor<?x2x?xf32>) permutation = [2, 0, 1]
  return %t : tensor<?x2x?xf32>
}
