// Each refusal has a name, and leaves the module byte-identical: dead ops and duplicate constants included.

// DEFINE: %{lower} = qtranspose-opt %s --split-input-file --allow-unregistered-dialect
// RUN: %{lower} -o %t.before
// RUN: %{lower} --qtranspose-lower-quantized-matmul -o %t.after
// RUN: diff %t.before %t.after
// RUN: %{lower} --qtranspose-lower-quantized-matmul -o /dev/null \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --implicit-check-not=remark:

// A float sum rounds after each product; an integer sum does not.

// CHECK: remark: [Missed] reassociates-float-sum | {{.*}} Function=float_sum
#id = affine_map<(d0, d1) -> (d0, d1)>
#column = affine_map<(d0, d1) -> (d1)>
func.func @float_sum(%a: tensor<2x4xi8>, %w: tensor<4x3xi8>, %s: tensor<3xf32>, %init: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %scale = arith.constant 0.1 : f32
  %zero = arith.constant 3 : i32
  %ea = tensor.empty() : tensor<2x4xf32>
  %da = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<2x4xi8>) outs(%ea : tensor<2x4xf32>) {
  ^bb0(%in: i8, %out: f32):
    %0 = arith.extsi %in : i8 to i32
    %1 = arith.subi %0, %zero : i32
    %2 = arith.sitofp %1 : i32 to f32
    %3 = arith.mulf %2, %scale : f32
    linalg.yield %3 : f32
  } -> tensor<2x4xf32>
  %ew = tensor.empty() : tensor<4x3xf32>
  %dw = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%w, %s : tensor<4x3xi8>, tensor<3xf32>) outs(%ew : tensor<4x3xf32>) {
  ^bb0(%in: i8, %scale_in: f32, %out: f32):
    %0 = arith.sitofp %in : i8 to f32
    %1 = arith.mulf %0, %scale_in : f32
    linalg.yield %1 : f32
  } -> tensor<4x3xf32>
  %y = linalg.matmul ins(%da, %dw : tensor<2x4xf32>, tensor<4x3xf32>) outs(%init : tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// Only the weight is quantized.

// CHECK: remark: [Missed] activation-not-quantized | {{.*}} Function=float_activation
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @float_activation(%a: tensor<2x4xf32>, %w: tensor<4x3xi8>, %init: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %scale = arith.constant 0.1 : f32
  %ew = tensor.empty() : tensor<4x3xf32>
  %dw = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<4x3xi8>) outs(%ew : tensor<4x3xf32>) {
  ^bb0(%in: i8, %out: f32):
    %0 = arith.sitofp %in : i8 to f32
    %1 = arith.mulf %0, %scale : f32
    linalg.yield %1 : f32
  } -> tensor<4x3xf32>
  %y = linalg.matmul ins(%a, %dw : tensor<2x4xf32>, tensor<4x3xf32>) outs(%init : tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// One zero point per row of the weight, which is summed over.

// CHECK: remark: [Missed] zero-point-along-reduction | {{.*}} Function=zero_point_per_row
#a = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#z = affine_map<(m, n, k) -> (k)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @zero_point_per_row(%a: tensor<2x4xi8>, %w: tensor<4x3xi8>, %z: tensor<4xi8>, %init: tensor<2x3xi32>) -> tensor<2x3xi32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %y = linalg.generic {indexing_maps = [#a, #w, #z, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w, %z : tensor<2x4xi8>, tensor<4x3xi8>, tensor<4xi8>) outs(%init : tensor<2x3xi32>) {
  ^bb0(%in: i8, %weight: i8, %zero: i8, %out: i32):
    %0 = arith.extsi %in : i8 to i32
    %1 = arith.extsi %weight : i8 to i32
    %2 = arith.extsi %zero : i8 to i32
    %3 = arith.subi %1, %2 : i32
    %4 = arith.muli %0, %3 : i32
    %5 = arith.addi %out, %4 : i32
    linalg.yield %5 : i32
  } -> tensor<2x3xi32>
  return %y : tensor<2x3xi32>
}

// -----

// One scale per row of the weight, which is summed over.

// CHECK: remark: [Missed] scale-along-reduction | {{.*}} Function=scale_per_row
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @scale_per_row(%a: tensor<2x4xi8>, %w: tensor<4x3xi8>, %s: tensor<4xf32>, %init: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %ea = tensor.empty() : tensor<2x4xf32>
  %da = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<2x4xi8>) outs(%ea : tensor<2x4xf32>) {
  ^bb0(%in: i8, %out: f32):
    %0 = arith.sitofp %in : i8 to f32
    linalg.yield %0 : f32
  } -> tensor<2x4xf32>
  %ew = tensor.empty() : tensor<4x3xf32>
  %dw = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%w, %s : tensor<4x3xi8>, tensor<4xf32>) outs(%ew : tensor<4x3xf32>) {
  ^bb0(%in: i8, %scale: f32, %out: f32):
    %0 = arith.sitofp %in : i8 to f32
    %1 = arith.mulf %0, %scale : f32
    linalg.yield %1 : f32
  } -> tensor<4x3xf32>
  %y = linalg.matmul ins(%da, %dw : tensor<2x4xf32>, tensor<4x3xf32>) outs(%init : tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// Nothing says that a float argument is an integer.

// CHECK: remark: [Missed] zero-point-not-an-integer | {{.*}} Function=float_zero_point
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @float_zero_point(%a: tensor<2x4xi8>, %w: tensor<4x3xi8>, %zero: f32, %init: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %ea = tensor.empty() : tensor<2x4xf32>
  %da = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<2x4xi8>) outs(%ea : tensor<2x4xf32>) {
  ^bb0(%in: i8, %out: f32):
    %0 = arith.sitofp %in : i8 to f32
    %1 = arith.subf %0, %zero : f32
    linalg.yield %1 : f32
  } -> tensor<2x4xf32>
  %ew = tensor.empty() : tensor<4x3xf32>
  %dw = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<4x3xi8>) outs(%ew : tensor<4x3xf32>) {
  ^bb0(%in: i8, %out: f32):
    %0 = arith.sitofp %in : i8 to f32
    linalg.yield %0 : f32
  } -> tensor<4x3xf32>
  %y = linalg.matmul ins(%da, %dw : tensor<2x4xf32>, tensor<4x3xf32>) outs(%init : tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// Half a step is no zero point.

// CHECK: remark: [Missed] zero-point-not-an-integer | {{.*}} Function=fractional_zero_point
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @fractional_zero_point(%a: tensor<2x4xi8>, %w: tensor<4x3xi8>, %init: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %zero = arith.constant 7.5 : f32
  %ea = tensor.empty() : tensor<2x4xf32>
  %da = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<2x4xi8>) outs(%ea : tensor<2x4xf32>) {
  ^bb0(%in: i8, %out: f32):
    %0 = arith.sitofp %in : i8 to f32
    %1 = arith.subf %0, %zero : f32
    linalg.yield %1 : f32
  } -> tensor<2x4xf32>
  %ew = tensor.empty() : tensor<4x3xf32>
  %dw = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%w : tensor<4x3xi8>) outs(%ew : tensor<4x3xf32>) {
  ^bb0(%in: i8, %out: f32):
    %0 = arith.sitofp %in : i8 to f32
    linalg.yield %0 : f32
  } -> tensor<4x3xf32>
  %y = linalg.matmul ins(%da, %dw : tensor<2x4xf32>, tensor<4x3xf32>) outs(%init : tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}

// -----

// The difference from an i32 zero point wraps around before it is extended.

// CHECK: remark: [Missed] zero-point-not-bounded | {{.*}} Function=wide_zero_point
#a = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @wide_zero_point(%a: tensor<2x4xi8>, %w: tensor<4x3xi8>, %zero: i32, %init: tensor<2x3xi64>) -> tensor<2x3xi64> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %y = linalg.generic {indexing_maps = [#a, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w : tensor<2x4xi8>, tensor<4x3xi8>) outs(%init : tensor<2x3xi64>) {
  ^bb0(%in: i8, %weight: i8, %out: i64):
    %0 = arith.extsi %in : i8 to i32
    %1 = arith.subi %0, %zero : i32
    %2 = arith.extsi %1 : i32 to i64
    %3 = arith.extsi %weight : i8 to i64
    %4 = arith.muli %2, %3 : i64
    %5 = arith.addi %out, %4 : i64
    linalg.yield %5 : i64
  } -> tensor<2x3xi64>
  return %y : tensor<2x3xi64>
}

// -----

// 33026 products of up to 255 * 255 do not fit into 32 bits; the program adds in 64.

// CHECK: remark: [Missed] accumulator-may-overflow | {{.*}} Function=long_sum | Reason="the sum has 33026 terms; 32 bits hold 33025"
#a = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#z = affine_map<(m, n, k) -> ()>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 24
func.func @long_sum(%a: tensor<2x33026xi8>, %w: tensor<33026x3xi8>, %za: tensor<i8>, %zw: tensor<i8>, %init: tensor<2x3xi64>) -> tensor<2x3xi64> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %y = linalg.generic {indexing_maps = [#a, #w, #z, #z, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w, %za, %zw : tensor<2x33026xi8>, tensor<33026x3xi8>, tensor<i8>, tensor<i8>) outs(%init : tensor<2x3xi64>) {
  ^bb0(%in: i8, %weight: i8, %zero_a: i8, %zero_w: i8, %out: i64):
    %0 = arith.extsi %in : i8 to i64
    %1 = arith.extsi %zero_a : i8 to i64
    %2 = arith.subi %0, %1 : i64
    %3 = arith.extsi %weight : i8 to i64
    %4 = arith.extsi %zero_w : i8 to i64
    %5 = arith.subi %3, %4 : i64
    %6 = arith.muli %2, %5 : i64
    %7 = arith.addi %out, %6 : i64
    linalg.yield %7 : i64
  } -> tensor<2x3xi64>
  return %y : tensor<2x3xi64>
}

// -----

// How many products there are is only known at run time.

// CHECK: remark: [Missed] sum-length-not-static | {{.*}} Function=dynamic_sum
#a = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#z = affine_map<(m, n, k) -> ()>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 24
func.func @dynamic_sum(%a: tensor<2x?xi8>, %w: tensor<?x3xi8>, %za: tensor<i8>, %init: tensor<2x3xi64>) -> tensor<2x3xi64> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %y = linalg.generic {indexing_maps = [#a, #w, #z, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w, %za : tensor<2x?xi8>, tensor<?x3xi8>, tensor<i8>) outs(%init : tensor<2x3xi64>) {
  ^bb0(%in: i8, %weight: i8, %zero: i8, %out: i64):
    %0 = arith.extsi %in : i8 to i64
    %1 = arith.extsi %zero : i8 to i64
    %2 = arith.subi %0, %1 : i64
    %3 = arith.extsi %weight : i8 to i64
    %4 = arith.muli %2, %3 : i64
    %5 = arith.addi %out, %4 : i64
    linalg.yield %5 : i64
  } -> tensor<2x3xi64>
  return %y : tensor<2x3xi64>
}

// -----

// CHECK: remark: [Missed] library-call | {{.*}} Function=library
#a = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @library(%a: tensor<2x4xi8>, %w: tensor<4x3xi8>, %zero: i32, %init: tensor<2x3xi32>) -> tensor<2x3xi32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %y = linalg.generic {indexing_maps = [#a, #w, #y], iterator_types = ["parallel", "parallel", "reduction"], library_call = "gemm"} ins(%a, %w : tensor<2x4xi8>, tensor<4x3xi8>) outs(%init : tensor<2x3xi32>) {
  ^bb0(%in: i8, %weight: i8, %out: i32):
    %0 = arith.extsi %in : i8 to i32
    %1 = arith.subi %0, %zero : i32
    %2 = arith.extsi %weight : i8 to i32
    %3 = arith.muli %1, %2 : i32
    %4 = arith.addi %out, %3 : i32
    linalg.yield %4 : i32
  } -> tensor<2x3xi32>
  return %y : tensor<2x3xi32>
}

// -----

// CHECK: remark: [Missed] tensor-encoding | {{.*}} Function=encoded
// PITFALL 21
func.func @encoded(%a: tensor<2x4xi8>, %w: tensor<4x3xi8, "packed">, %za: i32, %zw: i32, %init: tensor<2x3xi32>) -> tensor<2x3xi32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %y = linalg.quantized_matmul ins(%a, %w, %za, %zw : tensor<2x4xi8>, tensor<4x3xi8, "packed">, i32, i32) outs(%init : tensor<2x3xi32>) -> tensor<2x3xi32>
  return %y : tensor<2x3xi32>
}

// -----

// Zero points of groups of rows of the result: there is no view of them over single rows.

// CHECK: remark: [Missed] not-factorable | {{.*}} Function=grouped_zero_points
#a = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#z = affine_map<(m, n, k) -> (n floordiv 2)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @grouped_zero_points(%a: tensor<2x4xi8>, %w: tensor<4x6xi8>, %z: tensor<3xi8>, %init: tensor<2x6xi32>) -> tensor<2x6xi32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %y = linalg.generic {indexing_maps = [#a, #w, #z, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w, %z : tensor<2x4xi8>, tensor<4x6xi8>, tensor<3xi8>) outs(%init : tensor<2x6xi32>) {
  ^bb0(%in: i8, %weight: i8, %zero: i8, %out: i32):
    %0 = arith.extsi %in : i8 to i32
    %1 = arith.extsi %weight : i8 to i32
    %2 = arith.extsi %zero : i8 to i32
    %3 = arith.subi %1, %2 : i32
    %4 = arith.muli %0, %3 : i32
    %5 = arith.addi %out, %4 : i32
    linalg.yield %5 : i32
  } -> tensor<2x6xi32>
  return %y : tensor<2x6xi32>
}

// -----

// Buffers are not rewritten.

// CHECK: remark: [Missed] memref-operands | {{.*}} Function=buffers
// PITFALL 20
func.func @buffers(%a: memref<2x4xi8>, %w: memref<4x3xi8>, %za: i32, %zw: i32, %init: memref<2x3xi32>) {
  linalg.quantized_matmul ins(%a, %w, %za, %zw : memref<2x4xi8>, memref<4x3xi8>, i32, i32) outs(%init : memref<2x3xi32>)
  return
}

// -----

// Not quantized, or not a sum of products: nothing to say.

#id = affine_map<(d0, d1) -> (d0, d1)>
#a = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @plain(%a: tensor<2x4xi8>, %w: tensor<4x3xi8>, %init: tensor<2x3xi32>, %fa: tensor<2x4xf32>, %fw: tensor<4x3xf32>, %finit: tensor<2x3xf32>, %zero: i32) -> (tensor<2x3xi32>, tensor<2x3xf32>, tensor<2x3xi32>) {
  %0 = linalg.matmul ins(%a, %w : tensor<2x4xi8>, tensor<4x3xi8>) outs(%init : tensor<2x3xi32>) -> tensor<2x3xi32>
  %1 = linalg.matmul ins(%fa, %fw : tensor<2x4xf32>, tensor<4x3xf32>) outs(%finit : tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = linalg.generic {indexing_maps = [#a, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %w : tensor<2x4xi8>, tensor<4x3xi8>) outs(%init : tensor<2x3xi32>) {
  ^bb0(%in: i8, %weight: i8, %out: i32):
    %3 = arith.extsi %in : i8 to i32
    %4 = arith.subi %3, %zero : i32
    %5 = arith.extsi %weight : i8 to i32
    %6 = arith.muli %4, %5 : i32
    %7 = arith.maxsi %out, %6 : i32
    linalg.yield %7 : i32
  } -> tensor<2x3xi32>
  return %0, %1, %2 : tensor<2x3xi32>, tensor<2x3xf32>, tensor<2x3xi32>
}
