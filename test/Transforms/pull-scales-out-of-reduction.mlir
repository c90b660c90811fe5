// DEFINE: %{pass} = qtranspose-pull-scales-out-of-reduction
// RUN: qtranspose-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(%{pass}{allow-reassociation excess-precision},canonicalize)' \
// RUN:   | FileCheck %s
// RUN: qtranspose-opt %s --split-input-file \
// RUN:   --pass-pipeline='builtin.module(%{pass}{allow-reassociation},canonicalize)' \
// RUN:   | FileCheck %s --check-prefix=ROUNDED

// Scale and zero point per group: y = sum_g s * (sum_k x * q - z * sum_k x).

#x = affine_map<(d0, d1, d2) -> (d1, d2)>
#w = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#g = affine_map<(d0, d1, d2) -> (d0, d1)>
#n = affine_map<(d0, d1, d2) -> (d0)>
// CHECK-DAG: #[[$ALL:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[$X:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG: #[[$NG:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-DAG: #[[$GK:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[$G:.*]] = affine_map<(d0, d1) -> (d0)>
// CHECK-DAG: #[[$G2:.*]] = affine_map<(d0, d1) -> (d1)>
// CHECK-LABEL: func @groups
// CHECK-SAME: %[[X:.*]]: tensor<4x32xf32>, %[[W:.*]]: tensor<48x4x32xi8>, %[[Z:.*]]: tensor<48x4xf32>, %[[S:.*]]: tensor<48x4xf16>, %[[I:.*]]: tensor<48xf32>
// CHECK: %[[P:.*]] = linalg.generic {indexing_maps = [#[[$X]], #[[$ALL]], #[[$NG]]], iterator_types = ["parallel", "parallel", "reduction"]}
// CHECK-SAME: ins(%[[X]], %[[W]]
// CHECK:   %[[F:.*]] = arith.sitofp %{{.*}} : i8 to f32
// CHECK:   %[[M:.*]] = arith.mulf %{{.*}}, %[[F]]
// CHECK:   arith.addf %{{.*}}, %[[M]]
// CHECK: %[[SX:.*]] = linalg.generic {indexing_maps = [#[[$GK]], #[[$G]]], iterator_types = ["parallel", "reduction"]} ins(%[[X]]
// CHECK: linalg.generic {indexing_maps = [#[[$GK]], #[[$G2]], #[[$GK]], #[[$GK]], #[[$G]]], iterator_types = ["parallel", "reduction"]}
// CHECK-SAME: ins(%[[P]], %[[SX]], %[[Z]], %[[S]] : {{.*}}) outs(%[[I]]
// CHECK: ^bb0(%[[p:.*]]: f32, %[[sx:.*]]: f32, %[[z:.*]]: f32, %[[s:.*]]: f16, %[[acc:.*]]: f32)
// CHECK:   %[[ZX:.*]] = arith.mulf %[[sx]], %[[z]]
// CHECK:   %[[D:.*]] = arith.subf %[[p]], %[[ZX]]
// CHECK:   %[[SF:.*]] = arith.extf %[[s]] : f16 to f32
// CHECK:   %[[T:.*]] = arith.mulf %[[D]], %[[SF]]
// CHECK:   arith.addf %[[acc]], %[[T]]
func.func @groups(%x: tensor<4x32xf32>, %w: tensor<48x4x32xi8>, %z: tensor<48x4xf32>, %s: tensor<48x4xf16>,
                  %i: tensor<48xf32>) -> tensor<48xf32> {
  %y = linalg.generic {indexing_maps = [#x, #w, #g, #g, #n], iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%x, %w, %z, %s : tensor<4x32xf32>, tensor<48x4x32xi8>, tensor<48x4xf32>, tensor<48x4xf16>)
      outs(%i : tensor<48xf32>) {
  ^bb0(%a: f32, %q: i8, %zero: f32, %scale: f16, %acc: f32):
    %f = arith.sitofp %q : i8 to f32
    %c = arith.subf %f, %zero : f32
    %wide = arith.extf %scale : f16 to f32
    %d = arith.mulf %c, %wide : f32
    %p = arith.mulf %a, %d : f32
    %sum = arith.addf %p, %acc : f32
    linalg.yield %sum : f32
  } -> tensor<48xf32>
  return %y : tensor<48xf32>
}

// -----

// One scale per output, and 1024 terms: the scale leaves the sum, the zero point stays. What is rounded to f16 on the
// way is not rounded, if that is asked for.

#x = affine_map<(d0, d1) -> (d1)>
#w = affine_map<(d0, d1) -> (d0, d1)>
#n = affine_map<(d0, d1) -> (d0)>
// ROUNDED-LABEL: func @per_output
// ROUNDED-COUNT-1: linalg.generic
// ROUNDED-NOT: linalg.generic
// ROUNDED: return
// CHECK-LABEL: func @per_output
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]
// CHECK:   %[[F:.*]] = arith.sitofp %{{.*}} : i8 to f16
// CHECK:   %[[C:.*]] = arith.subf %[[F]], %{{.*}} : f16
// CHECK:   %[[CF:.*]] = arith.extf %[[C]] : f16 to f32
// CHECK:   arith.mulf %{{.*}}, %[[CF]] : f32
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel"]
// CHECK:   arith.extf
// CHECK:   arith.mulf
// CHECK:   arith.addf
func.func @per_output(%x: tensor<1024xf16>, %w: tensor<48x1024xi8>, %z: tensor<48xf16>, %s: tensor<48xf16>,
                      %i: tensor<48xf32>) -> tensor<48xf32> {
  %y = linalg.generic {indexing_maps = [#x, #w, #n, #n, #n], iterator_types = ["parallel", "reduction"]}
      ins(%x, %w, %z, %s : tensor<1024xf16>, tensor<48x1024xi8>, tensor<48xf16>, tensor<48xf16>)
      outs(%i : tensor<48xf32>) {
  ^bb0(%a: f16, %q: i8, %zero: f16, %scale: f16, %acc: f32):
    %f = arith.sitofp %q : i8 to f16
    %c = arith.subf %f, %zero : f16
    %d = arith.mulf %c, %scale : f16
    %dw = arith.extf %d : f16 to f32
    %aw = arith.extf %a : f16 to f32
    %p = arith.mulf %aw, %dw : f32
    %sum = arith.addf %acc, %p : f32
    linalg.yield %sum : f32
  } -> tensor<48xf32>
  return %y : tensor<48xf32>
}

// -----

// Integers that are widened before they are subtracted; an offset that is added instead.

#x = affine_map<(d0, d1, d2) -> (d1, d2)>
#w = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#g = affine_map<(d0, d1, d2) -> (d0, d1)>
#n = affine_map<(d0, d1, d2) -> (d0)>
// CHECK-LABEL: func @integers
// CHECK: linalg.generic {{.*}} ["parallel", "parallel", "reduction"]
// CHECK-NOT: arith.subi
// CHECK: linalg.generic {{.*}} ["parallel", "reduction"]
// CHECK: linalg.generic {{.*}} ["parallel", "reduction"]
// CHECK:   arith.extsi
// CHECK:   arith.sitofp
// CHECK:   arith.subf
// CHECK:   arith.mulf
func.func @integers(%x: tensor<4x32xf32>, %w: tensor<48x4x32xi8>, %z: tensor<48x4xi8>, %s: tensor<48x4xf32>,
                    %i: tensor<48xf32>) -> tensor<48xf32> {
  %y = linalg.generic {indexing_maps = [#x, #w, #g, #g, #n], iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%x, %w, %z, %s : tensor<4x32xf32>, tensor<48x4x32xi8>, tensor<48x4xi8>, tensor<48x4xf32>)
      outs(%i : tensor<48xf32>) {
  ^bb0(%a: f32, %q: i8, %zero: i8, %scale: f32, %acc: f32):
    %qw = arith.extsi %q : i8 to i32
    %zw = arith.extsi %zero : i8 to i32
    %c = arith.subi %qw, %zw : i32
    %f = arith.sitofp %c : i32 to f32
    %d = arith.mulf %f, %scale : f32
    %p = arith.mulf %a, %d : f32
    %sum = arith.addf %acc, %p : f32
    linalg.yield %sum : f32
  } -> tensor<48xf32>
  return %y : tensor<48xf32>
}

// CHECK-LABEL: func @offset
// CHECK: %[[P:.*]] = linalg.generic {{.*}} ["parallel", "parallel", "reduction"]
// CHECK: %[[SX:.*]] = linalg.generic {{.*}} ["parallel", "reduction"]
// CHECK: linalg.generic {{.*}} ins(%[[P]], %[[SX]]
// CHECK:   arith.mulf
// CHECK:   arith.mulf
// CHECK:   arith.addf
// CHECK:   arith.addf
func.func @offset(%x: tensor<4x32xf32>, %w: tensor<48x4x32xi8>, %b: tensor<48x4xf32>, %s: tensor<48x4xf32>,
                  %i: tensor<48xf32>) -> tensor<48xf32> {
  %y = linalg.generic {indexing_maps = [#x, #w, #g, #g, #n], iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%x, %w, %b, %s : tensor<4x32xf32>, tensor<48x4x32xi8>, tensor<48x4xf32>, tensor<48x4xf32>)
      outs(%i : tensor<48xf32>) {
  ^bb0(%a: f32, %q: i8, %offset: f32, %scale: f32, %acc: f32):
    %f = arith.uitofp %q : i8 to f32
    %d = arith.mulf %f, %scale : f32
    %o = arith.addf %d, %offset : f32
    %p = arith.mulf %a, %o : f32
    %sum = arith.addf %acc, %p : f32
    linalg.yield %sum : f32
  } -> tensor<48xf32>
  return %y : tensor<48xf32>
}
