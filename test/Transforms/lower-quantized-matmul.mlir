// RUN: qtranspose-opt %s --split-input-file --qtranspose-lower-quantized-matmul -o %t.once \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>%t.remarks
// RUN: FileCheck %s --input-file=%t.once --implicit-check-not=nsw
// RUN: FileCheck %s --input-file=%t.remarks --check-prefix=REMARK
// RUN: qtranspose-opt %t.once --split-input-file --qtranspose-lower-quantized-matmul -o %t.twice
// RUN: diff %t.once %t.twice

// The sums of a constant are constants: -za sum_k W + K za zw - zw sum_k A, with za = 2, zw = 1 and K = 2.
// Columns sum to [4, 6]: -2 * [4, 6] + 4 = [-4, -8].

// REMARK: remark: [Passed] lowered | Category:qtranspose:qtranspose-lower-quantized-matmul | Function=named |
// CHECK-LABEL: func.func @named(
// CHECK-SAME:      %[[A:.*]]: tensor<3x2xi8>, %[[INIT:.*]]: tensor<3x2xi32>
// CHECK-DAG:     %[[W:.*]] = arith.constant dense<{{\[\[}}1, 2], [3, 4]]> : tensor<2x2xi8>
// CHECK:         %[[SUMS:.*]] = linalg.generic {{.*}} ins(%[[A]] : tensor<3x2xi8>)
// CHECK:         %[[FOLDED:.*]] = arith.constant dense<[-4, -8]> : tensor<2xi32>
// CHECK:         %[[C:.*]] = linalg.generic {{.*}} ins(%[[FOLDED]], %[[SUMS]], %[[INIT]] :
// CHECK:         %[[Y:.*]] = linalg.generic {{.*}} ins(%[[A]], %[[W]] : {{.*}} outs(%[[C]] :
// CHECK:           arith.extsi
// CHECK:           arith.extsi
// CHECK:           arith.muli
// CHECK:           arith.addi
// CHECK:         return %[[Y]]
func.func @named(%a: tensor<3x2xi8>, %init: tensor<3x2xi32>) -> tensor<3x2xi32> {
  %w = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  %za = arith.constant 2 : i32
  %zw = arith.constant 1 : i32
  %y = linalg.quantized_matmul ins(%a, %w, %za, %zw : tensor<3x2xi8>, tensor<2x2xi8>, i32, i32)
      outs(%init : tensor<3x2xi32>) -> tensor<3x2xi32>
  return %y : tensor<3x2xi32>
}

// -----

// Zero points per channel, unsigned above 127 and signed; the weight is summed as it is stored, [N, K].

// CHECK-DAG: #[[$ROWS:.*]] = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: func.func @channels(
// CHECK-SAME:      %[[A:.*]]: tensor<3x2xi8>, %[[W:.*]]: tensor<4x2xi8>, %[[Z:.*]]: tensor<4xi8>, %[[INIT:.*]]: tensor<3x4xi32>
// CHECK:         %[[WS:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #[[$ROWS]]], iterator_types = ["parallel", "reduction"]} ins(%[[W]] : tensor<4x2xi8>)
// CHECK:           arith.extsi
// CHECK:         %[[AS:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #[[$ROWS]]], iterator_types = ["parallel", "reduction"]} ins(%[[A]] : tensor<3x2xi8>)
// CHECK:           arith.extui
// CHECK:         %[[C:.*]] = linalg.generic {{.*}} ins(%[[Z]], %[[WS]], %[[AS]], %[[INIT]] :
// CHECK:         linalg.generic {{.*}} ins(%[[A]], %[[W]] : {{.*}} outs(%[[C]] :
// CHECK:           arith.extui
// CHECK:           arith.extsi
#a = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (n, k)>
#z = affine_map<(m, n, k) -> (n)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @channels(%a: tensor<3x2xi8>, %w: tensor<4x2xi8>, %zw: tensor<4xi8>, %init: tensor<3x4xi32>) -> tensor<3x4xi32> {
  %y = linalg.generic {indexing_maps = [#a, #w, #z, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %w, %zw : tensor<3x2xi8>, tensor<4x2xi8>, tensor<4xi8>) outs(%init : tensor<3x4xi32>) {
  ^bb0(%x: i8, %q: i8, %z: i8, %acc: i32):
    %c128 = arith.constant 128 : i32
    %x32 = arith.extui %x : i8 to i32
    %q32 = arith.extsi %q : i8 to i32
    %z32 = arith.extsi %z : i8 to i32
    %dx = arith.subi %x32, %c128 : i32
    %dq = arith.subi %q32, %z32 : i32
    %p = arith.muli %dx, %dq : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  } -> tensor<3x4xi32>
  return %y : tensor<3x4xi32>
}

// -----

// A zero point of zero costs nothing.

// CHECK-LABEL: func.func @symmetric(
// CHECK-SAME:      %[[A:.*]]: tensor<3x2xi8>, %[[W:.*]]: tensor<2x4xi8>, %[[INIT:.*]]: tensor<3x4xi32>
// CHECK-NOT:     linalg.fill
// CHECK:         linalg.generic {{.*}} ins(%[[A]], %[[W]] : {{.*}} outs(%[[INIT]] :
func.func @symmetric(%a: tensor<3x2xi8>, %w: tensor<2x4xi8>, %init: tensor<3x4xi32>) -> tensor<3x4xi32> {
  %zero = arith.constant 0 : i32
  %y = linalg.quantized_matmul ins(%a, %w, %zero, %zero : tensor<3x2xi8>, tensor<2x4xi8>, i32, i32)
      outs(%init : tensor<3x4xi32>) -> tensor<3x4xi32>
  return %y : tensor<3x4xi32>
}

// -----

// A sum in 64 bits of which 32 are enough.

// CHECK-LABEL: func.func @wide(
// CHECK:           arith.muli %{{.*}}, %{{.*}} : i32
// CHECK:           arith.addi %{{.*}}, %{{.*}} : i32
// CHECK:         } -> tensor<3x4xi32>
// CHECK:           arith.extsi %{{.*}} : i32 to i64
#a = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @wide(%a: tensor<3x2xi8>, %w: tensor<2x4xi8>, %init: tensor<3x4xi64>) -> tensor<3x4xi64> {
  %y = linalg.generic {indexing_maps = [#a, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %w : tensor<3x2xi8>, tensor<2x4xi8>) outs(%init : tensor<3x4xi64>) {
  ^bb0(%x: i8, %q: i8, %acc: i64):
    %c3 = arith.constant 3 : i64
    %x64 = arith.extsi %x : i8 to i64
    %q64 = arith.extsi %q : i8 to i64
    %d = arith.subi %x64, %c3 : i64
    %p = arith.muli %d, %q64 : i64
    %s = arith.addi %acc, %p : i64
    linalg.yield %s : i64
  } -> tensor<3x4xi64>
  return %y : tensor<3x4xi64>
}
