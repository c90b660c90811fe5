// Large constant buffers become external; the module says what they hold.

// RUN: qtranspose-opt %s --pass-pipeline='builtin.module(qtranspose-externalize-constants{smallest=8})' | FileCheck %s
// RUN: qtranspose-opt %s --pass-pipeline='builtin.module(qtranspose-externalize-constants{smallest=8},qtranspose-externalize-constants{smallest=4})' \
// RUN:   | FileCheck %s --check-prefix=TWICE

// CHECK: module attributes {qtranspose.external_constants = {_mlir_ciface_inline = dense<{{.*}}> : tensor<2x4xi8>, _mlir_ciface_resource = dense_resource<data> : tensor<2xi32>}}
// CHECK-DAG: memref.global constant @_mlir_ciface_inline : memref<2x4xi8> {alignment = 64 : i64}
// CHECK-DAG: memref.global constant @_mlir_ciface_resource : memref<2xi32>
// CHECK-DAG: memref.global "private" constant @small : memref<4xi8> = dense<
// CHECK: memref.get_global @_mlir_ciface_inline
// CHECK: memref.get_global @_mlir_ciface_resource
// TWICE: qtranspose.external_constants = {_mlir_ciface_inline = {{.*}}, _mlir_ciface_resource = {{.*}}, _mlir_ciface_small = {{.*}}}
memref.global "private" constant @inline : memref<2x4xi8> = dense<[[1, 2, 3, 4], [5, 6, 7, 8]]> {alignment = 64 : i64}
memref.global "private" constant @resource : memref<2xi32> = dense_resource<data>
memref.global "private" constant @small : memref<4xi8> = dense<[1, 2, 3, 4]>
func.func @main() -> (memref<2x4xi8>, memref<2xi32>, memref<4xi8>) {
  %0 = memref.get_global @inline : memref<2x4xi8>
  %1 = memref.get_global @resource : memref<2xi32>
  %2 = memref.get_global @small : memref<4xi8>
  return %0, %1, %2 : memref<2x4xi8>, memref<2xi32>, memref<4xi8>
}

{-#
  dialect_resources: {
    builtin: {
      data: "0x040000000100000002000000"
    }
  }
#-}
