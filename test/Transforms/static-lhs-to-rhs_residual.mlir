// A residual that is computed at run time would need a transpose of its own: the
// result is restored before it is added.

// RUN: qtranspose-opt %s --qtranspose-static-lhs-to-rhs --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>%t.remarks \
// RUN:   | FileCheck %s
// RUN: FileCheck %s --input-file=%t.remarks --check-prefix=REMARK

// REMARK: remark: [Missed] residual-in-old-layout | {{.*}} Function=residual |

// CHECK-LABEL: func.func @residual(
// CHECK-SAME:      %{{.*}}: tensor<3x5xf32>, %[[R:.*]]: tensor<2x5xf32>
// CHECK:         linalg.matmul
// CHECK:         %[[Y:.*]] = linalg.transpose {{.*}} outs(%{{.*}} : tensor<2x5xf32>)
// CHECK:         linalg.add ins(%[[Y]], %[[R]] :
func.func @residual(%x: tensor<3x5xf32>, %r: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %w = arith.constant dense<[[1.0, 2.0, 0.0], [-1.0, 0.0, 3.0]]> : tensor<2x3xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x5xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x5xf32>) -> tensor<2x5xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x5xf32>) outs(%f : tensor<2x5xf32>) -> tensor<2x5xf32>
  %s = linalg.add ins(%y, %r : tensor<2x5xf32>, tensor<2x5xf32>) outs(%e : tensor<2x5xf32>) -> tensor<2x5xf32>
  return %s : tensor<2x5xf32>
}
