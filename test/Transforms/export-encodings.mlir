// The entry of a weight that moved has the name of the derived constant and its axis; all else is as it was.

// RUN: sed -n 's|^// JSON: ||p' %s > %t.json
// RUN: qtranspose-opt %s --pass-pipeline='builtin.module(qtranspose-attach-encodings{file=%t.json},qtranspose-static-lhs-to-rhs,qtranspose-export-encodings{file=%t.out.json})' -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir --check-prefix=IR
// RUN: FileCheck %s --input-file=%t.out.json

// Nothing has moved yet, or has moved back: the document is what it was.
// RUN: qtranspose-opt %s --pass-pipeline='builtin.module(qtranspose-attach-encodings{file=%t.json},qtranspose-export-encodings{file=%t.same.json})' -o /dev/null
// RUN: qtranspose-opt %s --pass-pipeline='builtin.module(qtranspose-attach-encodings{file=%t.same.json},qtranspose-export-encodings{file=%t.again.json})' -o /dev/null
// RUN: diff %t.same.json %t.again.json

// JSON: {"version": "0.6.1",
// JSON:  "producer": {"tool": "t", "list": [1, 2.5, null, true]},
// JSON:  "param_encodings": {
// JSON:    "w": [{"bitwidth": 8, "dtype": "int", "is_symmetric": "True", "scale": 0.5, "offset": -128},
// JSON:          {"bitwidth": 8, "dtype": "int", "is_symmetric": "True", "scale": 0.25, "offset": -127}],
// JSON:    "elsewhere": [{"bitwidth": 8, "scale": 0.5, "offset": 0}]},
// JSON:  "activation_encodings": {"x": [{"bitwidth": 8, "scale": 0.125, "offset": -3}]}}

// IR: arith.constant {qtranspose.derived = {encoding = {axis = 1 : i64, {{.*}}name = "w", {{.*}}scale = array<f64: 5.000000e-01, 2.500000e-01>{{.*}}}, map = #{{.*}}, source = "w", source_type = tensor<2x3xf32>}} dense_resource<w_derived> : tensor<3x2xf32>

// CHECK:      "x": [
// CHECK:      "elsewhere": [
// CHECK-NOT:  "w"
// CHECK:      "w_derived": [
// CHECK-NEXT:   {
// CHECK-NEXT:     "axis": 1,
// CHECK-NEXT:     "bitwidth": 8,
// CHECK-NEXT:     "dtype": "int",
// CHECK-NEXT:     "is_symmetric": "True",
// CHECK-NEXT:     "offset": -128,
// CHECK-NEXT:     "scale": 0.5
// CHECK-NEXT:   },
// CHECK-NEXT:   {
// CHECK-NEXT:     "axis": 1,
// CHECK:          "scale": 0.25
// CHECK:      "producer": {
// CHECK-NEXT:   "list": [
// CHECK:          2.5,
// CHECK-NEXT:     null,
func.func @f(%x: tensor<3x5xf32>, %init: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %w = arith.constant dense_resource<w> : tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x5xf32>) outs(%init : tensor<2x5xf32>) -> tensor<2x5xf32>
  return %y : tensor<2x5xf32>
}

{-# dialect_resources: { builtin: { w: "0x040000000000803F00000040000040400000803F0000004000004040" } } #-}
