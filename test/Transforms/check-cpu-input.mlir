// What the CPU target executes passes, unchanged.

// RUN: qtranspose-opt %s -o %t.before
// RUN: qtranspose-opt %s --qtranspose-check-cpu-input -o %t.after
// RUN: diff %t.before %t.after
// RUN: FileCheck %s --input-file=%t.after

// CHECK-LABEL: func.func @everything
func.func @everything(%a: tensor<2xi1>, %b: tensor<3xui4>, %c: tensor<?xf8E4M3FN>, %d: memref<2xbf16>,
                      %e: tensor<2x!quant.uniform<i8:f32, 1.0>>, %f: index, %g: i128) -> tensor<2xi1> {
  %r = func.call @inner(%a) : (tensor<2xi1>) -> tensor<2xi1>
  return %r : tensor<2xi1>
}
func.func private @inner(%a: tensor<2xi1>) -> tensor<2xi1> {
  return %a : tensor<2xi1>
}
