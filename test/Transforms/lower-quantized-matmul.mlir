// RUN: qtranspose-opt %s --split-input-file --qtranspose-lower-quantized-matmul -o %t.once \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>%t.remarks
// RUN: FileCheck %s --input-file=%t.once --implicit-check-not=nsw
// RUN: FileCheck %s --input-file=%t.remarks --check-prefix=REMARK
// RUN: qtranspose-opt %t.once --split-input-file --qtranspose-lower-quantized-matmul -o %t.twice
// RUN: diff %t.once %t.twice
// RUN: qtranspose-opt %s --split-input-file --qtranspose-lower-quantized-matmul --mlir-print-debuginfo --mlir-print-local-scope \
// RUN:   | FileCheck %s --check-prefix=LOC

// The sum of a constant weight is a constant; a zero point of zero leaves nothing. -10 * [1 + 3 - 5, -2 + 4 + 6]

// CHECK-DAG: #[[$COLUMN:.*]] = affine_map<(d0, d1) -> (d1)>
// CHECK-DAG: #[[$A:.*]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG: #[[$W:.*]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-LABEL: func.func @constant_weight(
// CHECK-SAME: %[[X:.*]]: tensor<2x3xi8>
// CHECK: %[[WEIGHT:.*]] = arith.constant dense<{{\[}}[1, -2], [3, 4], [-5, 6]]> : tensor<3x2xi8>
// CHECK: %[[SUMS:.*]] = arith.constant dense<[10, -80]> : tensor<2xi32>
// CHECK: %[[INIT:.*]] = linalg.generic {indexing_maps = [#[[$COLUMN]], #{{.*}}], {{.*}} ins(%[[SUMS]] : tensor<2xi32>)
// CHECK-NEXT: ^bb0(%[[C:.*]]: i32, %{{.*}}: i32):
// CHECK-NEXT: linalg.yield %[[C]] : i32
// CHECK: linalg.generic {indexing_maps = [#[[$A]], #[[$W]], #{{.*}}], iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[X]], %[[WEIGHT]] : tensor<2x3xi8>, tensor<3x2xi8>) outs(%[[INIT]] : tensor<2x2xi32>)
// CHECK: extsi
// CHECK: extsi
// CHECK: muli
// CHECK: addi
// CHECK-NOT: linalg.generic
// CHECK: return
// REMARK: [Passed] lowered | {{.*}} Function=constant_weight | Remark="arg:2x3xi8[d0, d2] x const:3x2xi8[d2, d1] in i32; sum of the weight folded"
func.func @constant_weight(%a: tensor<2x3xi8>) -> tensor<2x2xi32> {
  %w = arith.constant dense<[[1, -2], [3, 4], [-5, 6]]> : tensor<3x2xi8>
  %za = arith.constant 10 : i32
  %zw = arith.constant 0 : i32
  %c0 = arith.constant 0 : i32
  %e = tensor.empty() : tensor<2x2xi32>
  %zero = linalg.fill ins(%c0 : i32) outs(%e : tensor<2x2xi32>) -> tensor<2x2xi32>
  %y = linalg.quantized_matmul ins(%a, %w, %za, %zw : tensor<2x3xi8>, tensor<3x2xi8>, i32, i32) outs(%zero : tensor<2x2xi32>) -> tensor<2x2xi32>
  return %y : tensor<2x2xi32>
}

// -----

// A zero point of the weight needs the row sums of the input. -10 * ([-1, 8] - 3 * 7) = [220, 130]

// CHECK-DAG: #[[$ROW:.*]] = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: func.func @weight_zero_point(
// CHECK-SAME: %[[X:.*]]: tensor<2x3xi8>, %[[INIT:.*]]: tensor<2x2xi32>
// CHECK: %[[ROWS:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #[[$ROW]]], iterator_types = ["parallel", "reduction"]} ins(%[[X]] : tensor<2x3xi8>)
// CHECK: %[[SUMS:.*]] = arith.constant dense<[220, 130]> : tensor<2xi32>
// CHECK: linalg.generic {{.*}} ins(%[[SUMS]], %[[ROWS]], %[[INIT]] : tensor<2xi32>, tensor<2xi32>, tensor<2x2xi32>)
// CHECK-NEXT: ^bb0(%[[S:.*]]: i32, %[[R:.*]]: i32, %[[I:.*]]: i32, %{{.*}}: i32):
// CHECK-DAG: %[[SEVEN:.*]] = arith.constant 7 : i32
// CHECK-DAG: %[[SUM:.*]] = arith.addi %[[I]], %[[S]] : i32
// CHECK: %[[TERM:.*]] = arith.muli %[[R]], %[[SEVEN]] : i32
// CHECK: arith.subi %[[SUM]], %[[TERM]] : i32
// CHECK: iterator_types = ["parallel", "parallel", "reduction"]
// REMARK: Function=weight_zero_point | {{.*}} sum of the weight folded, sum of the input at run time"
func.func @weight_zero_point(%a: tensor<2x3xi8>, %init: tensor<2x2xi32>) -> tensor<2x2xi32> {
  %w = arith.constant dense<[[1, -2], [3, 4], [-5, 6]]> : tensor<3x2xi8>
  %za = arith.constant 10 : i32
  %zw = arith.constant 7 : i32
  %y = linalg.quantized_matmul ins(%a, %w, %za, %zw : tensor<2x3xi8>, tensor<3x2xi8>, i32, i32) outs(%init : tensor<2x2xi32>) -> tensor<2x2xi32>
  return %y : tensor<2x2xi32>
}

// -----

// Everything at run time: K comes from the operand. A 32-bit sum is exact modulo 2^32 whatever K is.

// CHECK-LABEL: func.func @run_time(
// CHECK-SAME: %[[X:.*]]: tensor<?x?x?xi8>, %[[W:.*]]: tensor<?x?x?xi8>, %[[ZA:.*]]: i32, %[[ZW:.*]]: i32, %[[INIT:.*]]: tensor<?x?x?xi32>
// CHECK: %[[COLUMNS:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "parallel"]} ins(%[[W]] : tensor<?x?x?xi8>)
// CHECK: %[[DIM:.*]] = tensor.dim %[[X]], %c2{{.*}} : tensor<?x?x?xi8>
// CHECK: %[[K:.*]] = arith.index_cast %[[DIM]] : index to i32
// CHECK: %[[ROWS:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%[[X]] : tensor<?x?x?xi8>)
// CHECK: linalg.generic {{.*}} ins(%[[COLUMNS]], %[[ROWS]], %[[INIT]] : {{.*}})
// CHECK-NEXT: ^bb0(%[[C:.*]]: i32, %[[R:.*]]: i32, %[[I:.*]]: i32, %{{.*}}: i32):
// CHECK-NEXT: %[[KZ:.*]] = arith.muli %[[K]], %[[ZW]] : i32
// CHECK-NEXT: %[[CENTERED:.*]] = arith.subi %[[C]], %[[KZ]] : i32
// CHECK-NEXT: %[[T0:.*]] = arith.muli %[[CENTERED]], %[[ZA]] : i32
// CHECK-NEXT: %[[D0:.*]] = arith.subi %[[I]], %[[T0]] : i32
// CHECK-NEXT: %[[T1:.*]] = arith.muli %[[R]], %[[ZW]] : i32
// CHECK-NEXT: %[[D1:.*]] = arith.subi %[[D0]], %[[T1]] : i32
// CHECK-NEXT: linalg.yield %[[D1]] : i32
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%[[X]], %[[W]] :
func.func @run_time(%a: tensor<?x?x?xi8>, %w: tensor<?x?x?xi8>, %za: i32, %zw: i32, %init: tensor<?x?x?xi32>) -> tensor<?x?x?xi32> {
  %y = linalg.quantized_batch_matmul ins(%a, %w, %za, %zw : tensor<?x?x?xi8>, tensor<?x?x?xi8>, i32, i32) outs(%init : tensor<?x?x?xi32>) -> tensor<?x?x?xi32>
  return %y : tensor<?x?x?xi32>
}

// -----

// A transposed weight on the left is read, and added up, as it is stored; its bias joins the compensation.
// Stored rows [1, 2], [3, 4], [5, -1], column sums [9, 5], plus 3 * 2.

// CHECK-DAG: #[[$STORED:.*]] = affine_map<(d0, d1, d2) -> (d2, d0)>
// CHECK-LABEL: func.func @left(
// CHECK-SAME: %[[X:.*]]: tensor<3x2xi8>, %[[ZA:.*]]: i32
// CHECK: %[[W:.*]] = arith.constant dense_resource<w> : tensor<3x2xi8>
// CHECK-NOT: linalg.transpose
// CHECK-NOT: linalg.broadcast
// CHECK: %[[SUMS:.*]] = arith.constant dense<[15, 11]> : tensor<2xi32>
// CHECK: %[[BIAS:.*]] = arith.constant dense<[100, 200]> : tensor<2xi32>
// CHECK: linalg.generic {{.*}} ins(%[[SUMS]], %[[BIAS]], %{{.*}} : tensor<2xi32>, tensor<2xi32>, tensor<2xi32>)
// CHECK: linalg.generic {indexing_maps = [#[[$STORED]], {{.*}} ins(%[[W]], %[[X]] : tensor<3x2xi8>, tensor<3x2xi8>)
// REMARK: Function=left | Remark="const:3x2xi8[d2, d0] x arg:3x2xi8[d2, d1] in i32; sum of the weight folded, sum of the input at run time"
func.func @left(%a: tensor<3x2xi8>, %za: i32) -> tensor<2x2xi32> {
  %w = arith.constant dense_resource<w> : tensor<3x2xi8>
  %bias = arith.constant dense<[100, 200]> : tensor<2xi32>
  %e8 = tensor.empty() : tensor<2x3xi8>
  %wt = linalg.transpose ins(%w : tensor<3x2xi8>) outs(%e8 : tensor<2x3xi8>) permutation = [1, 0]
  %e = tensor.empty() : tensor<2x2xi32>
  %init = linalg.broadcast ins(%bias : tensor<2xi32>) outs(%e : tensor<2x2xi32>) dimensions = [1]
  %zw = arith.constant -2 : i32
  %y = linalg.quantized_matmul ins(%wt, %a, %zw, %za : tensor<2x3xi8>, tensor<3x2xi8>, i32, i32) outs(%init : tensor<2x2xi32>) -> tensor<2x2xi32>
  return %y : tensor<2x2xi32>
}
{-# dialect_resources: { builtin: { w: "0x010000000102030405FF" } } #-}

// -----

// Mixed signedness, a u8 zero point of 200, both subtracted by producers; the program adds in 64 bits.

// LOC-LABEL: func.func @mixed
// LOC: arith.muli
// LOC: } -> tensor<2x2xi32> loc(fused["matmul", {{.*}}"less_zero_point"{{.*}}])

// CHECK-LABEL: func.func @mixed(
// CHECK-SAME: %[[X:.*]]: tensor<2x3xi8>
// CHECK: arith.constant dense<[200, -1600]> : tensor<2xi32>
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[X]], %{{.*}} : tensor<2x3xi8>, tensor<3x2xi8>)
// CHECK: %[[U:.*]] = arith.extui %{{.*}} : i8 to i32
// CHECK: %[[S:.*]] = arith.extsi %{{.*}} : i8 to i32
// CHECK: arith.muli %[[U]], %[[S]] : i32
// CHECK: linalg.generic {{.*}} ins(%[[SUM]] : tensor<2x2xi32>)
// CHECK: arith.extsi %{{.*}} : i32 to i64
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @mixed(%a: tensor<2x3xi8>) -> tensor<2x2xi64> {
  %w = arith.constant dense<[[1, -2], [3, 4], [-5, 6]]> : tensor<3x2xi8>
  %z = arith.constant 200 : i32
  %ea = tensor.empty() : tensor<2x3xi32>
  %da = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<2x3xi8>) outs(%ea : tensor<2x3xi32>) {
  ^bb0(%in: i8, %out: i32):
    %0 = arith.extui %in : i8 to i32
    %1 = arith.subi %0, %z : i32
    linalg.yield %1 : i32
  } -> tensor<2x3xi32> loc("less_zero_point")
  %ew = tensor.empty() : tensor<3x2xi32>
  %dw = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<3x2xi8>) outs(%ew : tensor<3x2xi32>) {
  ^bb0(%in: i8, %out: i32):
    %0 = arith.extsi %in : i8 to i32
    linalg.yield %0 : i32
  } -> tensor<3x2xi32>
  %c0 = arith.constant 0 : i64
  %e = tensor.empty() : tensor<2x2xi64>
  %zero = linalg.fill ins(%c0 : i64) outs(%e : tensor<2x2xi64>) -> tensor<2x2xi64>
  %y = linalg.matmul ins(%da, %dw : tensor<2x3xi32>, tensor<3x2xi32>) outs(%zero : tensor<2x2xi64>) -> tensor<2x2xi64> loc("matmul")
  return %y : tensor<2x2xi64>
}

// -----

// A 1x1 convolution: the stride is a slice, unit dims are not summed over.

// CHECK-DAG: #[[$FILTER:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d3, 0, 0, d4)>
// CHECK-LABEL: func.func @conv(
// CHECK-SAME: %[[X:.*]]: tensor<1x5x5x3xi8>
// CHECK: tensor.extract_slice %[[X]][0, 0, 0, 0] [1, 2, 2, 3] [1, 3, 3, 1]
// CHECK: arith.constant dense<[3, 12]> : tensor<2xi32>
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[$FILTER]], #{{.*}}], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
func.func @conv(%a: tensor<1x5x5x3xi8>, %init: tensor<1x2x2x2xi32>, %za: i32) -> tensor<1x2x2x2xi32> {
  %w = arith.constant dense<[[[[1, 2, 3]]], [[[4, 5, 6]]]]> : tensor<2x1x1x3xi8>
  %zw = arith.constant 1 : i32
  %y = linalg.conv_2d_nhwc_fhwc_q {dilations = dense<1> : tensor<2xi64>, strides = dense<3> : tensor<2xi64>} ins(%a, %w, %za, %zw : tensor<1x5x5x3xi8>, tensor<2x1x1x3xi8>, i32, i32) outs(%init : tensor<1x2x2x2xi32>) -> tensor<1x2x2x2xi32>
  return %y : tensor<1x2x2x2xi32>
}

// -----

// The sum over a window reads an operand of the window's shape, as poolings do.

// CHECK-DAG: #[[$WINDOW:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d2, d4)>
// CHECK-LABEL: func.func @window(
// CHECK-SAME: %[[X:.*]]: tensor<1x5x5x3xi8>
// CHECK: %[[SHAPE:.*]] = tensor.empty() : tensor<3x3xi32>
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #[[$WINDOW]], #{{.*}}], {{.*}} ins(%[[X]], %[[SHAPE]] : tensor<1x5x5x3xi8>, tensor<3x3xi32>)
func.func @window(%a: tensor<1x5x5x3xi8>, %w: tensor<2x3x3x3xi8>, %init: tensor<1x2x2x2xi32>, %za: i32, %zw: i32) -> tensor<1x2x2x2xi32> {
  %y = linalg.conv_2d_nhwc_fhwc_q {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%a, %w, %za, %zw : tensor<1x5x5x3xi8>, tensor<2x3x3x3xi8>, i32, i32) outs(%init : tensor<1x2x2x2xi32>) -> tensor<1x2x2x2xi32>
  return %y : tensor<1x2x2x2xi32>
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
