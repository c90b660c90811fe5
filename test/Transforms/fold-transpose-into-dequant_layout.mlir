// `consumer-layout=nk`: the dequantized weight is [batch, N, K], and the contraction's map transposes it.

// RUN: qtranspose-opt %s --split-input-file --qtranspose-fold-transpose-into-dequant=consumer-layout=nk -o %t.once
// RUN: FileCheck %s --input-file=%t.once
// RUN: qtranspose-opt %t.once --split-input-file --qtranspose-fold-transpose-into-dequant=consumer-layout=nk -o %t.twice
// RUN: diff %t.once %t.twice
// RUN: qtranspose-opt %s --split-input-file --qtranspose-fold-transpose-into-dequant=consumer-layout=kn | FileCheck %s --check-prefix=KN

// The chain stays as it was; only the matmul changes, and keeps its attributes.

// CHECK-DAG:   #[[$ID:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[$X:.+]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG:   #[[$W:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG:   #[[$Y:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @matmul
// CHECK:         %[[W:.+]] = linalg.generic {indexing_maps = [#[[$ID]], #[[$ID]]]
// CHECK-SAME:      outs(%{{.+}} : tensor<3x5xf32>)
// CHECK-NOT:     linalg.transpose
// CHECK:         linalg.matmul indexing_maps = [#[[$X]], #[[$W]], #[[$Y]]] {tag = "y"}
// CHECK-SAME:      ins(%{{.+}}, %[[W]] : tensor<7x5xf32>, tensor<3x5xf32>)
// KN-LABEL:    func.func @matmul
// KN-NOT:        linalg.transpose
// KN:            linalg.matmul {tag = "y"} ins(%{{.+}}, %{{.+}} : tensor<7x5xf32>, tensor<5x3xf32>)
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @matmul(%x: tensor<7x5xf32>, %q: tensor<3x5xi8>, %acc: tensor<7x3xf32>) -> tensor<7x3xf32> {
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %y = linalg.matmul {tag = "y"} ins(%x, %t : tensor<7x5xf32>, tensor<5x3xf32>) outs(%acc : tensor<7x3xf32>) -> tensor<7x3xf32>
  return %y : tensor<7x3xf32>
}

// -----

// A weight that is dequantized as [K, N] is re-indexed; a scale along N stays with N.

// CHECK-DAG:   #[[$IN:.+]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-DAG:   #[[$SCALE:.+]] = affine_map<(d0, d1) -> (d0)>
// CHECK-DAG:   #[[$OUT:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @stored_as_kn
// CHECK:         linalg.generic {indexing_maps = [#[[$IN]], #[[$SCALE]], #[[$OUT]]]
// CHECK-SAME:      ins(%{{.+}}, %{{.+}} : tensor<5x3xi8>, tensor<3xf32>) outs(%{{.+}} : tensor<3x5xf32>)
// CHECK:         linalg.matmul indexing_maps
// CHECK-SAME:      tensor<3x5xf32>
// KN-LABEL:    func.func @stored_as_kn
// KN:            linalg.generic
// KN-SAME:         outs(%{{.+}} : tensor<5x3xf32>)
// KN:            linalg.matmul ins
#id = affine_map<(d0, d1) -> (d0, d1)>
#axis = affine_map<(d0, d1) -> (d1)>
func.func @stored_as_kn(%x: tensor<7x5xf32>, %q: tensor<5x3xi8>, %scale: tensor<3xf32>, %acc: tensor<7x3xf32>) -> tensor<7x3xf32> {
  %e = tensor.empty() : tensor<5x3xf32>
  %w = linalg.generic {indexing_maps = [#id, #axis, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %scale : tensor<5x3xi8>, tensor<3xf32>) outs(%e : tensor<5x3xf32>) {
  ^bb0(%in: i8, %s: f32, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    %b = arith.mulf %a, %s : f32
    linalg.yield %b : f32
  } -> tensor<5x3xf32>
  %y = linalg.matmul ins(%x, %w : tensor<7x5xf32>, tensor<5x3xf32>) outs(%acc : tensor<7x3xf32>) -> tensor<7x3xf32>
  return %y : tensor<7x3xf32>
}

// -----

// A named op that fixes its layout becomes generic, with its unsigned cast; a left operand is [batch, M, K]; a batch
// comes first wherever it is stored.

// CHECK-DAG:   #[[$VECTOR:.+]] = affine_map<(d0, d1) -> (d1)>
// CHECK-DAG:   #[[$MATRIX:.+]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG:   #[[$RESULT:.+]] = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: func.func @vecmat
// CHECK-NOT:     linalg.transpose
// CHECK:         linalg.generic {indexing_maps = [#[[$VECTOR]], #[[$MATRIX]], #[[$RESULT]]], iterator_types = ["parallel", "reduction"]}
// CHECK-SAME:      ins(%{{.+}}, %{{.+}} : tensor<5xf32>, tensor<3x5xf32>) outs(%{{.+}} : tensor<3xf32>) attrs =  {tag = "y"}
#id = affine_map<(d0, d1) -> (d0, d1)>
// PITFALL 2
func.func @vecmat(%x: tensor<5xf32>, %q: tensor<3x5xi8>, %acc: tensor<3xf32>) -> tensor<3xf32> {
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %y = linalg.vecmat {tag = "y"} ins(%x, %t : tensor<5xf32>, tensor<5x3xf32>) outs(%acc : tensor<3xf32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// -----

// CHECK-DAG:   #[[$IN:.+]] = affine_map<(d0, d1, d2) -> (d1, d0, d2)>
// CHECK-DAG:   #[[$B:.+]] = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
// CHECK-LABEL: func.func @batch
// CHECK:         linalg.generic {indexing_maps = [#[[$IN]],
// CHECK-SAME:      outs(%{{.+}} : tensor<2x3x5xf32>)
// CHECK-NOT:     linalg.transpose
// CHECK:         linalg.batch_matmul indexing_maps = [#{{.+}}, #[[$B]], #{{.+}}]
// CHECK-SAME:      tensor<2x7x5xf32>, tensor<2x3x5xf32>
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @batch(%x: tensor<2x7x5xf32>, %q: tensor<3x2x5xi8>, %acc: tensor<2x7x3xf32>) -> tensor<2x7x3xf32> {
  %e = tensor.empty() : tensor<3x2x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q : tensor<3x2x5xi8>) outs(%e : tensor<3x2x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x2x5xf32>
  %f = tensor.empty() : tensor<2x5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x2x5xf32>) outs(%f : tensor<2x5x3xf32>) permutation = [1, 2, 0]
  %y = linalg.batch_matmul ins(%x, %t : tensor<2x7x5xf32>, tensor<2x5x3xf32>) outs(%acc : tensor<2x7x3xf32>) -> tensor<2x7x3xf32>
  return %y : tensor<2x7x3xf32>
}

// -----

// A left operand, transposed by the matmul's own map, ends as the plain matmul. A transpose to the same layout, for
// something else, is served by the same value.

// CHECK-LABEL: func.func @left
// CHECK:         %[[W:.+]] = linalg.generic {{.*}} outs(%{{.+}} : tensor<5x3xf32>)
// CHECK-NOT:     {{linalg.transpose|linalg.generic}}
// CHECK:         %[[Y:.+]] = linalg.matmul ins(%[[W]], %{{.+}} : tensor<5x3xf32>, tensor<3x7xf32>)
// CHECK:         return %[[Y]], %[[W]]
#id = affine_map<(d0, d1) -> (d0, d1)>
#a = affine_map<(d0, d1, d2) -> (d2, d0)>
#b = affine_map<(d0, d1, d2) -> (d2, d1)>
#c = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func @left(%x: tensor<3x7xf32>, %q: tensor<3x5xi8>, %acc: tensor<5x7xf32>) -> (tensor<5x7xf32>, tensor<5x3xf32>) {
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %y = linalg.matmul indexing_maps = [#a, #b, #c] ins(%w, %x : tensor<3x5xf32>, tensor<3x7xf32>) outs(%acc : tensor<5x7xf32>) -> tensor<5x7xf32>
  return %y, %t : tensor<5x7xf32>, tensor<5x3xf32>
}

// -----

// Two transposes, the first of which already yields the layout; a batched matmul whose map broadcasts the weight.

// CHECK-LABEL: func.func @through_two
// CHECK:         %[[W:.+]] = linalg.generic {{.*}} outs(%{{.+}} : tensor<2x3x5xf32>)
// CHECK-NOT:     linalg.transpose
// CHECK:         linalg.batch_matmul indexing_maps
// CHECK-SAME:      ins(%{{.+}}, %[[W]] : tensor<2x7x5xf32>, tensor<2x3x5xf32>)
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @through_two(%x: tensor<2x7x5xf32>, %q: tensor<5x2x3xi8>, %acc: tensor<2x7x3xf32>) -> tensor<2x7x3xf32> {
  %e = tensor.empty() : tensor<5x2x3xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q : tensor<5x2x3xi8>) outs(%e : tensor<5x2x3xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<5x2x3xf32>
  %f = tensor.empty() : tensor<2x3x5xf32>
  %t = linalg.transpose ins(%w : tensor<5x2x3xf32>) outs(%f : tensor<2x3x5xf32>) permutation = [1, 2, 0]
  %g = tensor.empty() : tensor<2x5x3xf32>
  %u = linalg.transpose ins(%t : tensor<2x3x5xf32>) outs(%g : tensor<2x5x3xf32>) permutation = [0, 2, 1]
  %y = linalg.batch_matmul ins(%x, %u : tensor<2x7x5xf32>, tensor<2x5x3xf32>) outs(%acc : tensor<2x7x3xf32>) -> tensor<2x7x3xf32>
  return %y : tensor<2x7x3xf32>
}

// -----

// CHECK-DAG:   #[[$W:.+]] = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
// CHECK-LABEL: func.func @broadcast
// CHECK-NOT:     linalg.transpose
// CHECK:         linalg.generic {indexing_maps = [#{{.+}}, #[[$W]], #{{.+}}], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
// CHECK-SAME:      tensor<2x7x5xf32>, tensor<3x5xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#x = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
#w = affine_map<(d0, d1, d2, d3) -> (d3, d2)>
#y = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
func.func @broadcast(%x: tensor<2x7x5xf32>, %q: tensor<3x5xi8>, %acc: tensor<2x7x3xf32>) -> tensor<2x7x3xf32> {
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %y = linalg.batch_matmul indexing_maps = [#x, #w, #y] ins(%x, %t : tensor<2x7x5xf32>, tensor<5x3xf32>)
      outs(%acc : tensor<2x7x3xf32>) -> tensor<2x7x3xf32>
  return %y : tensor<2x7x3xf32>
}
