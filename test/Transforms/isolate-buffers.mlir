// RUN: qtranspose-opt %s --qtranspose-isolate-buffers | FileCheck %s

// State is copied in and out; what cannot change is read in place.

// CHECK-DAG: memref.global "private" @state : memref<2xf32> = dense<1.000000e+00> {alignment = 64 : i64}
// CHECK-DAG: memref.global "private" constant @table : memref<3xi32> = dense<2> {alignment = 64 : i64}
// CHECK-DAG: memref.global "private" @count : memref<i64> = dense<0> {alignment = 64 : i64}
ml_program.global private mutable @state(dense<1.0> : tensor<2xf32>) : tensor<2xf32>
ml_program.global private @table(dense<2> : tensor<3xi32>) : tensor<3xi32>
ml_program.global private mutable @count(0 : i64) : i64

// CHECK-LABEL: func.func @step(
// CHECK-SAME:      %[[X:.*]]: tensor<2xf32> {bufferization.writable = false}
// CHECK:         %[[OLD:.*]] = bufferization.to_tensor %{{.*}} restrict : memref<2xf32>
// CHECK:         %[[COPY:.*]] = bufferization.alloc_tensor() copy(%[[OLD]])
// CHECK:         %[[N:.*]] = memref.load %{{.*}}[] : memref<i64>
// CHECK:         %[[TABLE:.*]] = bufferization.to_tensor %{{.*}} restrict : memref<3xi32>
// CHECK-NOT:     alloc_tensor
// CHECK:         bufferization.materialize_in_destination %[[X]] in restrict writable %{{.*}} : (tensor<2xf32>, memref<2xf32>)
// CHECK:         memref.store %[[N]], %{{.*}}[] : memref<i64>
// CHECK:         return %[[COPY]], %[[TABLE]], %[[N]]
func.func @step(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<3xi32>, i64) {
  %old = ml_program.global_load @state : tensor<2xf32>
  %n = ml_program.global_load @count : i64
  %t = ml_program.global_load_const @table : tensor<3xi32>
  ml_program.global_store @state = %x : tensor<2xf32>
  ml_program.global_store @count = %n : i64
  return %old, %t, %n : tensor<2xf32>, tensor<3xi32>, i64
}

// Arguments of private functions belong to the program.

// CHECK-LABEL: func.func private @helper(%{{.*}}: tensor<2xf32>) -> tensor<2xf32>
func.func private @helper(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
