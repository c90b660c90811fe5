// The policy of MLC-LLM: one row, known at compile time; a left operand of rank two or more; a two-dimensional weight.

// RUN: qtranspose-opt %s --split-input-file --qtranspose-fold-transpose-into-dequant=matvec-only \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --input-file=%t.remarks --check-prefix=REMARK

// CHECK-LABEL: func.func @decode
// CHECK:         %[[W:.+]] = linalg.generic {{.*}} outs(%{{.+}} : tensor<5x3xf32>)
// CHECK-NOT:     linalg.transpose
// CHECK:         linalg.matmul {tag = "y"} ins(%{{.+}}, %[[W]] :
// CHECK-SAME:      outs(%{{.+}} : tensor<1x3xf64>) -> tensor<1x3xf64>
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @decode(%x: tensor<1x5xf32>, %q: tensor<3x5xi8>, %acc: tensor<1x3xf64>) -> tensor<1x3xf64> {
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %y = linalg.matmul {tag = "y"} ins(%x, %t : tensor<1x5xf32>, tensor<5x3xf32>) outs(%acc : tensor<1x3xf64>) -> tensor<1x3xf64>
  return %y : tensor<1x3xf64>
}

// -----

// A batch of single rows; the weight arrives through a cast and a broadcast.

// CHECK-LABEL: func.func @behind_broadcast
// CHECK-NOT:     linalg.transpose
// CHECK:         linalg.batch_matmul
#id = affine_map<(d0, d1) -> (d0, d1)>
#id3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#weight = affine_map<(d0, d1, d2) -> (d1, d2)>
func.func @behind_broadcast(%x: tensor<?x1x5xf64>, %q: tensor<3x5xi8>, %b: tensor<?x5x3xf64>, %acc: tensor<?x1x3xf64>)
    -> tensor<?x1x3xf64> {
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %g = tensor.empty() : tensor<5x3xf64>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%t : tensor<5x3xf32>) outs(%g : tensor<5x3xf64>) {
  ^bb0(%in: f32, %out: f64):
    %a = arith.extf %in : f32 to f64
    linalg.yield %a : f64
  } -> tensor<5x3xf64>
  %d = linalg.generic {indexing_maps = [#weight, #id3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%c : tensor<5x3xf64>) outs(%b : tensor<?x5x3xf64>) {
  ^bb0(%in: f64, %out: f64):
    linalg.yield %in : f64
  } -> tensor<?x5x3xf64>
  %y = linalg.batch_matmul ins(%x, %d : tensor<?x1x5xf64>, tensor<?x5x3xf64>) outs(%acc : tensor<?x1x3xf64>) -> tensor<?x1x3xf64>
  return %y : tensor<?x1x3xf64>
}

// -----

// One transpose, two matmuls: the one with one row is served, the other keeps the transpose.

// CHECK-LABEL: func.func @per_use
// CHECK:         %[[W:.+]] = linalg.generic {{.*}} outs(%{{.+}} : tensor<5x3xf32>)
// CHECK:         %[[T:.+]] = linalg.transpose
// CHECK:         linalg.matmul ins(%{{.+}}, %[[W]] : tensor<1x5xf32>
// CHECK:         linalg.matmul ins(%{{.+}}, %[[T]] : tensor<7x5xf32>
// REMARK:      [Passed] fold-transpose {{.*}} Function=per_use
// REMARK:      [Missed] more-than-one-row {{.*}} Function=per_use | Reason="the left operand has 7 rows"
#id = affine_map<(d0, d1) -> (d0, d1)>
// PITFALL 27
func.func @per_use(%x: tensor<1x5xf32>, %z: tensor<7x5xf32>, %q: tensor<3x5xi8>, %acc: tensor<1x3xf32>, %bcc: tensor<7x3xf32>)
    -> (tensor<1x3xf32>, tensor<7x3xf32>) {
  %e = tensor.empty() : tensor<3x5xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%w : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<1x5xf32>, tensor<5x3xf32>) outs(%acc : tensor<1x3xf32>) -> tensor<1x3xf32>
  %v = linalg.matmul ins(%z, %t : tensor<7x5xf32>, tensor<5x3xf32>) outs(%bcc : tensor<7x3xf32>) -> tensor<7x3xf32>
  return %y, %v : tensor<1x3xf32>, tensor<7x3xf32>
}
