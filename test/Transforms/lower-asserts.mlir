// RUN: qtranspose-opt %s --qtranspose-lower-asserts=handler=failed | FileCheck %s

// Equal messages have one number. A failure returns buffers that the caller can free.

// CHECK: module attributes {qtranspose.assert_messages = ["first", "second", "third"]}
// CHECK: func.func private @failed(i64) attributes {llvm.emit_c_interface}
// CHECK-LABEL: func.func @two_messages(
// CHECK-SAME:      %{{.*}}: memref<2xf32>, %[[OK:.*]]: i1, %[[N:.*]]: index
// CHECK:         cf.cond_br %[[OK]], ^[[ONE:.*]], ^[[FAIL1:.*]]
// CHECK:       ^[[ONE]]:
// CHECK:         memref.alloc(%[[N]])
// CHECK:         cf.cond_br %[[OK]], ^[[TWO:.*]], ^[[FAIL2:.*]]
// CHECK:       ^[[TWO]]:
// CHECK:         cf.cond_br %[[OK]], ^[[DONE:.*]], ^[[FAIL3:.*]]
// CHECK:       ^[[FAIL1]]:
// CHECK:         %[[ZERO:.*]] = arith.constant 0 : i64
// CHECK:         call @failed(%[[ZERO]])
// CHECK:         %[[SIZE:.*]] = arith.constant 0 : index
// CHECK:         %[[BUFFER:.*]] = memref.alloc(%[[SIZE]]) : memref<?xf32>
// CHECK:         %[[INT:.*]] = arith.constant 0 : i32
// CHECK:         return %[[BUFFER]], %[[INT]]
// CHECK:       ^[[FAIL2]]:
// CHECK:         %[[SECOND:.*]] = arith.constant 1 : i64
// CHECK:         call @failed(%[[SECOND]])
// CHECK:       ^[[FAIL3]]:
// CHECK:         %[[FIRST:.*]] = arith.constant 0 : i64
// CHECK:         call @failed(%[[FIRST]])
func.func @two_messages(%x: memref<2xf32>, %ok: i1, %n: index) -> (memref<?xf32>, i32) {
  cf.assert %ok, "first"
  %y = memref.alloc(%n) : memref<?xf32>
  cf.assert %ok, "second"
  cf.assert %ok, "first"
  %c = arith.constant 4 : i32
  return %y, %c : memref<?xf32>, i32
}

// CHECK-LABEL: func.func @none
// CHECK-NEXT:    return
func.func @none() {
  return
}

// CHECK-LABEL: func.func @other_results
// CHECK:         memref.alloc() : memref<2x3xi8>
// CHECK:         arith.constant dense<0.000000e+00> : vector<4xf32>
// CHECK:         arith.constant 0 : index
func.func @other_results(%ok: i1, %m: memref<2x3xi8>, %v: vector<4xf32>, %n: index) -> (memref<2x3xi8>, vector<4xf32>, index) {
  cf.assert %ok, "third"
  return %m, %v, %n : memref<2x3xi8>, vector<4xf32>, index
}
