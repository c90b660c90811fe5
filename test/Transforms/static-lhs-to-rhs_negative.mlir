// Each refusal has a name, and leaves the module byte-identical: dead ops and duplicate constants included.

// DEFINE: %{opt} = qtranspose-opt %s --split-input-file
// RUN: %{opt} -o %t.before
// RUN: %{opt} --qtranspose-static-lhs-to-rhs=paired-batches=refuse -o %t.after
// RUN: diff %t.before %t.after
// RUN: %{opt} --qtranspose-static-lhs-to-rhs=paired-batches=refuse -o /dev/null \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --implicit-check-not=remark:

// CHECK: remark: [Missed] both-operands-static | {{.*}} Function=two_constants | Reason="both operands are constant"
func.func @two_constants(%init: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %a = arith.constant dense<[[2., 1.], [1., 4.], [3., -2.]]> : tensor<3x2xf32>
  %y = linalg.matmul ins(%w, %a : tensor<2x3xf32>, tensor<3x2xf32>) outs(%init : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// Either argument could be the activation.

// CHECK: remark: [Missed] both-operands-static | {{.*}} Function=two_arguments | Reason="both operands are arguments of quantized storage"
func.func @two_arguments(%w: tensor<2x3xi8>, %a: tensor<3x2xi8>, %init: tensor<2x2xi32>) -> tensor<2x2xi32> {
  %dead = arith.constant 7 : i32
  %y = linalg.matmul ins(%w, %a : tensor<2x3xi8>, tensor<3x2xi8>) outs(%init : tensor<2x2xi32>) -> tensor<2x2xi32>
  return %y : tensor<2x2xi32>
}

// -----

// CHECK: remark: [Missed] body-not-multiply-add | {{.*}} Function=max_plus | Reason="it does not add to the accumulator"
#w = affine_map<(m, n, k) -> (m, k)>
#a = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 19
func.func @max_plus(%x: tensor<3x2xf32>, %init: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %dead = arith.constant 7 : i32
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y = linalg.generic {indexing_maps = [#w, #a, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w, %x : tensor<2x3xf32>, tensor<3x2xf32>) outs(%init : tensor<2x2xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %p = arith.mulf %l, %r : f32
    %s = arith.maximumf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// CHECK: remark: [Missed] body-not-multiply-add | {{.*}} Function=subtracts | Reason="it does not add to the accumulator"
#w = affine_map<(m, n, k) -> (m, k)>
#a = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 19
func.func @subtracts(%x: tensor<3x2xf32>, %init: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y = linalg.generic {indexing_maps = [#w, #a, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w, %x : tensor<2x3xf32>, tensor<3x2xf32>) outs(%init : tensor<2x2xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %p = arith.mulf %l, %r : f32
    %s = arith.subf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// CHECK: remark: [Missed] body-not-multiply-add | {{.*}} Function=negated | Reason="what it adds is not a product"
#w = affine_map<(m, n, k) -> (m, k)>
#a = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 19
func.func @negated(%x: tensor<3x2xf32>, %init: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y = linalg.generic {indexing_maps = [#w, #a, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w, %x : tensor<2x3xf32>, tensor<3x2xf32>) outs(%init : tensor<2x2xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %p = arith.mulf %l, %r : f32
    %n = arith.negf %p : f32
    %s = arith.addf %acc, %n : f32
    linalg.yield %s : f32
  } -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// CHECK: remark: [Missed] body-not-multiply-add | {{.*}} Function=drops_accumulator | Reason="it does not add to the accumulator"
#w = affine_map<(m, n, k) -> (m, k)>
#a = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 19
func.func @drops_accumulator(%x: tensor<3x2xf32>, %init: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y = linalg.generic {indexing_maps = [#w, #a, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w, %x : tensor<2x3xf32>, tensor<3x2xf32>) outs(%init : tensor<2x2xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %p = arith.mulf %l, %r : f32
    %s = arith.addf %p, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// CHECK: remark: [Missed] body-not-multiply-add | {{.*}} Function=squares | Reason="its factors are not computed from inputs of their own"
#w = affine_map<(m, n, k) -> (m, k)>
#a = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @squares(%x: tensor<3x2xf32>, %init: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y = linalg.generic {indexing_maps = [#w, #a, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w, %x : tensor<2x3xf32>, tensor<3x2xf32>) outs(%init : tensor<2x2xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %d = arith.subf %l, %r : f32
    %p = arith.mulf %d, %d : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// CHECK: remark: [Missed] uses-index | {{.*}} Function=position_dependent | Reason="the body has a 'linalg.index'"
#w = affine_map<(m, n, k) -> (m, k)>
#a = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 18
func.func @position_dependent(%x: tensor<3x2xi32>, %init: tensor<2x2xi32>) -> tensor<2x2xi32> {
  %w = arith.constant dense<[[1, 2, 0], [-1, 0, 3]]> : tensor<2x3xi32>
  %y = linalg.generic {indexing_maps = [#w, #a, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w, %x : tensor<2x3xi32>, tensor<3x2xi32>) outs(%init : tensor<2x2xi32>) {
  ^bb0(%l: i32, %r: i32, %acc: i32):
    %i = linalg.index 2 : index
    %c = arith.index_cast %i : index to i32
    %lc = arith.addi %l, %c : i32
    %p = arith.muli %lc, %r : i32
    %s = arith.addi %acc, %p : i32
    linalg.yield %s : i32
  } -> tensor<2x2xi32>
  return %y : tensor<2x2xi32>
}

// -----

// CHECK: remark: [Missed] side-effects-in-body | {{.*}} Function=asserts | Reason="'cf.assert' in the body may have side effects"
#w = affine_map<(m, n, k) -> (m, k)>
#a = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @asserts(%x: tensor<3x2xf32>, %init: tensor<2x2xf32>, %ok: i1) -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y = linalg.generic {indexing_maps = [#w, #a, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w, %x : tensor<2x3xf32>, tensor<3x2xf32>) outs(%init : tensor<2x2xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    cf.assert %ok, "no"
    %p = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// A 3x3 convolution is no matmul.

// CHECK: remark: [Missed] not-a-matmul | {{.*}} Function=window | Reason="the dynamic operand is read through a window, with a stride or along a diagonal"
func.func @window(%x: tensor<1x1x4x4xf32>, %init: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %w = arith.constant dense<1.0> : tensor<2x1x3x3xf32>
  %y = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x1x4x4xf32>, tensor<2x1x3x3xf32>)
      outs(%init : tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  return %y : tensor<1x2x2x2xf32>
}

// -----

// A 1x1 convolution with a stride does not read every element.

// CHECK: remark: [Missed] not-a-matmul | {{.*}} Function=strided | Reason="the dynamic operand is read through a window, with a stride or along a diagonal"
func.func @strided(%x: tensor<1x2x4x4xf32>, %init: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %w = arith.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]]> : tensor<2x2x1x1xf32>
  %y = linalg.conv_2d_nchw_fchw {strides = dense<2> : vector<2xi64>}
      ins(%x, %w : tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) outs(%init : tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  return %y : tensor<1x2x2x2xf32>
}

// -----

// CHECK: remark: [Missed] not-a-matmul | {{.*}} Function=diagonal | Reason="the weight is read along a diagonal"
#w = affine_map<(n, k) -> (k, k)>
#a = affine_map<(n, k) -> (k, n)>
#y = affine_map<(n, k) -> (n)>
func.func @diagonal(%x: tensor<2x3xf32>, %init: tensor<3xf32>) -> tensor<3xf32> {
  %w = arith.constant dense<[[1., 2.], [3., 4.]]> : tensor<2x2xf32>
  %y = linalg.generic {indexing_maps = [#w, #a, #y], iterator_types = ["parallel", "reduction"]}
      ins(%w, %x : tensor<2x2xf32>, tensor<2x3xf32>) outs(%init : tensor<3xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %p = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// -----

// The weight's second dim is summed for itself.

// CHECK: remark: [Missed] not-a-matmul | {{.*}} Function=summed_alone | Reason="an operand is summed on its own"
#w = affine_map<(m, n, k, j) -> (m, j, k)>
#a = affine_map<(m, n, k, j) -> (k, n)>
#y = affine_map<(m, n, k, j) -> (m, n)>
func.func @summed_alone(%x: tensor<3x2xf32>, %init: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = arith.constant dense<[[[1., 2., 0.], [-1., 0., 3.]]]> : tensor<1x2x3xf32>
  %y = linalg.generic {indexing_maps = [#w, #a, #y], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%w, %x : tensor<1x2x3xf32>, tensor<3x2xf32>) outs(%init : tensor<1x2xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %p = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x2xf32>
  return %y : tensor<1x2xf32>
}

// -----

// A product of three, two of which the program computes.

// CHECK: remark: [Missed] not-a-matmul | {{.*}} Function=two_dynamic | Reason="several operands are dynamic"
#w = affine_map<(m, n, k) -> (m, k)>
#a = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @two_dynamic(%x: tensor<3x2xf32>, %z: tensor<3x2xf32>, %init: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y = linalg.generic {indexing_maps = [#w, #a, #a, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w, %x, %z : tensor<2x3xf32>, tensor<3x2xf32>, tensor<3x2xf32>) outs(%init : tensor<2x2xf32>) {
  ^bb0(%l: f32, %r: f32, %q: f32, %acc: f32):
    %d = arith.subf %r, %q : f32
    %p = arith.mulf %l, %d : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// CHECK: remark: [Missed] packed-contraction | {{.*}} Function=tiles | Reason="'linalg.mmt4d' works on tiles"
func.func @tiles(%a: tensor<2x3x4x2xf32>, %init: tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32> {
  %w = arith.constant dense<[[[[1., 2.], [3., 4.]], [[5., 6.], [7., 8.]], [[9., 1.], [2., 3.]]]]> : tensor<1x3x2x2xf32>
  %y = linalg.mmt4d ins(%w, %a : tensor<1x3x2x2xf32>, tensor<2x3x4x2xf32>) outs(%init : tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32>
  return %y : tensor<1x2x2x4xf32>
}

// -----

// With `paired-batches=refuse`.

// CHECK: remark: [Missed] weight-differs-per-batch | {{.*}} Function=experts | Reason="the weight varies along 1 batch dim(s)"
func.func @experts(%a: tensor<2x3x5xf32>, %init: tensor<2x1x5xf32>) -> tensor<2x1x5xf32> {
  %w = arith.constant dense<[[[1., 2., 0.]], [[-1., 0., 3.]]]> : tensor<2x1x3xf32>
  %y = linalg.batch_matmul ins(%w, %a : tensor<2x1x3xf32>, tensor<2x3x5xf32>) outs(%init : tensor<2x1x5xf32>) -> tensor<2x1x5xf32>
  return %y : tensor<2x1x5xf32>
}

// -----

// The batches times the columns do not fit into an index.

// CHECK: remark: [Missed] shape-overflow | {{.*}} Function=too_large | Reason="the product of the sizes that become one dim exceeds 64 bits"
#w = affine_map<(b, m, n, k) -> (m, k)>
#a = affine_map<(b, m, n, k) -> (b, k, n)>
#y = affine_map<(b, m, n, k) -> (b, m, n)>
func.func @too_large(%a: tensor<4294967296x3x4294967296xf32>, %init: tensor<4294967296x2x4294967296xf32>)
    -> tensor<4294967296x2x4294967296xf32> {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y = linalg.contract indexing_maps = [#w, #a, #y]
      ins(%w, %a : tensor<2x3xf32>, tensor<4294967296x3x4294967296xf32>)
      outs(%init : tensor<4294967296x2x4294967296xf32>) -> tensor<4294967296x2x4294967296xf32>
  return %y : tensor<4294967296x2x4294967296xf32>
}

// -----

// CHECK: remark: [Missed] tensor-encoding | {{.*}} Function=encoded_weight | Reason="the weight has an encoding"
// PITFALL 21
func.func @encoded_weight(%a: tensor<3x2xf32>, %init: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32, "rows">
  %y = linalg.matmul ins(%w, %a : tensor<2x3xf32, "rows">, tensor<3x2xf32>) outs(%init : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// CHECK: remark: [Missed] tensor-encoding | {{.*}} Function=encoded_activation | Reason="an operand of the contraction"
func.func @encoded_activation(%a: tensor<3x2xf32, "rows">, %init: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %a : tensor<2x3xf32>, tensor<3x2xf32, "rows">) outs(%init : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// CHECK: remark: [Missed] tensor-encoding | {{.*}} Function=encoded_result | Reason="an operand of the contraction"
// PITFALL 21
func.func @encoded_result(%a: tensor<3x2xf32>, %init: tensor<2x2xf32, "rows">) -> tensor<2x2xf32, "rows"> {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %a : tensor<2x3xf32>, tensor<3x2xf32>) outs(%init : tensor<2x2xf32, "rows">) -> tensor<2x2xf32, "rows">
  return %y : tensor<2x2xf32, "rows">
}

// -----

// CHECK: remark: [Missed] several-results | {{.*}} Function=two_results | Reason="the contraction has 2 results"
#w = affine_map<(m, n, k) -> (m, k)>
#a = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
// PITFALL 18
func.func @two_results(%x: tensor<3x2xf32>, %init: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y:2 = linalg.generic {indexing_maps = [#w, #a, #y, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w, %x : tensor<2x3xf32>, tensor<3x2xf32>) outs(%init, %init : tensor<2x2xf32>, tensor<2x2xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32, %acc2: f32):
    %p = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %p : f32
    %s2 = arith.subf %acc2, %p : f32
    linalg.yield %s, %s2 : f32, f32
  } -> (tensor<2x2xf32>, tensor<2x2xf32>)
  return %y#0, %y#1 : tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// CHECK: remark: [Missed] library-call | {{.*}} Function=external | Reason="the contraction"
#w = affine_map<(m, n, k) -> (m, k)>
#a = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @external(%x: tensor<3x2xf32>, %init: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y = linalg.generic {indexing_maps = [#w, #a, #y], iterator_types = ["parallel", "parallel", "reduction"], library_call = "gemm"}
      ins(%w, %x : tensor<2x3xf32>, tensor<3x2xf32>) outs(%init : tensor<2x2xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %p = arith.mulf %l, %r : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// CHECK: remark: [Missed] memref-operands | {{.*}} Function=buffers
memref.global "private" constant @w : memref<2x3xf32> = dense<[[1., 2., 0.], [-1., 0., 3.]]>
// PITFALL 20
func.func @buffers(%a: memref<3x2xf32>, %y: memref<2x2xf32>) {
  %w = memref.get_global @w : memref<2x3xf32>
  linalg.matmul ins(%w, %a : memref<2x3xf32>, memref<3x2xf32>) outs(%y : memref<2x2xf32>)
  return
}

// -----

// The weight may be overwritten.

// CHECK: remark: [Missed] mutable-global | {{.*}} Function=mutable | Reason="reads the result of 'ml_program.global_load'"
ml_program.global private mutable @w(dense<[[1, 2, 0], [-1, 0, 3]]> : tensor<2x3xi8>) : tensor<2x3xi8>
func.func @mutable(%a: tensor<3x2xf32>, %init: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %q = ml_program.global_load @w : tensor<2x3xi8>
  %w = arith.sitofp %q : tensor<2x3xi8> to tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %a : tensor<2x3xf32>, tensor<3x2xf32>) outs(%init : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// Two ops that become one disagree about an attribute.

// CHECK: remark: [Missed] discardable-attribute | {{.*}} Function=attributes | Reason="'my.note' on an op that the transposed weight replaces"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @attributes(%a: tensor<3x2xf32>, %init: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %q = arith.constant dense<[[1, 2, 0], [-1, 0, 3]]> : tensor<2x3xi8>
  %s = arith.constant dense<[[2.0, 1.0, 0.5], [3.0, 1.0, 2.0]]> : tensor<2x3xf32>
  %e = tensor.empty() : tensor<2x3xf32>
  %f = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<2x3xi8>) outs(%e : tensor<2x3xf32>) attrs = {my.note = 1 : i32} {
  ^bb0(%in: i8, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    linalg.yield %c : f32
  } -> tensor<2x3xf32>
  %w = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%f, %s : tensor<2x3xf32>, tensor<2x3xf32>) outs(%e : tensor<2x3xf32>) attrs = {my.note = 2 : i32} {
  ^bb0(%in: f32, %k: f32, %out: f32):
    %c = arith.mulf %in, %k : f32
    linalg.yield %c : f32
  } -> tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %a : tensor<2x3xf32>, tensor<3x2xf32>) outs(%init : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// -----

// Not this pass's business: no remark. Weights on the right, two activations, outer products, elementwise products.

func.func @right(%x: tensor<2x3xf32>, %z: tensor<3x2xf32>, %init: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %w = arith.constant dense<[[2., 1.], [1., 4.], [3., -2.]]> : tensor<3x2xf32>
  %s = arith.constant dense<[[2., 1., 5.]]> : tensor<1x3xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<2x3xf32>, tensor<3x2xf32>) outs(%init : tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = linalg.matmul ins(%x, %z : tensor<2x3xf32>, tensor<3x2xf32>) outs(%init : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0, %1 : tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// A constant scale makes no weight of an activation.

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (0, d1)>
func.func @scaled_activation(%x: tensor<2x3xf32>, %z: tensor<3x2xf32>, %init: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %s = arith.constant dense<[[2., 1., 5.]]> : tensor<1x3xf32>
  %e = tensor.empty() : tensor<2x3xf32>
  %a = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %s : tensor<2x3xf32>, tensor<1x3xf32>) outs(%e : tensor<2x3xf32>) {
  ^bb0(%in: f32, %k: f32, %out: f32):
    %c = arith.mulf %in, %k : f32
    linalg.yield %c : f32
  } -> tensor<2x3xf32>
  %0 = linalg.matmul ins(%a, %z : tensor<2x3xf32>, tensor<3x2xf32>) outs(%init : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// -----

// An nhwc convolution has its weight on the right already.

func.func @nhwc(%x: tensor<1x2x2x3xf32>, %init: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %w = arith.constant dense<[[[[1., 2.], [3., 4.], [5., 6.]]]]> : tensor<1x1x3x2xf32>
  %y = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<1x2x2x3xf32>, tensor<1x1x3x2xf32>)
      outs(%init : tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  return %y : tensor<1x2x2x2xf32>
}

// -----

// The constant is in the callers, the matmul in a function of its own; not so if one of them computes it.

// CHECK: remark: [Missed] constant-of-callers | {{.*}} Function=mm | Reason="inline the function first"
func.func private @mm(%w: tensor<2x3xf32>, %a: tensor<3x2xf32>, %init: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %y = linalg.matmul ins(%w, %a : tensor<2x3xf32>, tensor<3x2xf32>) outs(%init : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}
func.func private @mixed(%w: tensor<2x3xf32>, %a: tensor<3x2xf32>, %init: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %y = linalg.matmul ins(%w, %a : tensor<2x3xf32>, tensor<3x2xf32>) outs(%init : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}
func.func @callers(%x: tensor<2x3xf32>, %a: tensor<3x2xf32>, %init: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %0 = call @mm(%w, %a, %init) : (tensor<2x3xf32>, tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = call @mixed(%w, %a, %0) : (tensor<2x3xf32>, tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = call @mixed(%x, %a, %1) : (tensor<2x3xf32>, tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %2 : tensor<2x2xf32>
}

// -----

// What is stored on the right has a scale from run time: that is no activation.

// CHECK: remark: [Missed] both-operands-static | {{.*}} Function=scale_of_the_other | Reason="both operands are arguments of quantized storage"
func.func @scale_of_the_other(%a: tensor<2x3xi8>, %w: tensor<3x4xi8>, %s: tensor<3x4xf32>, %i: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %w, %s : tensor<2x3xi8>, tensor<3x4xi8>, tensor<3x4xf32>) outs(%i : tensor<2x4xf32>) {
  ^bb0(%p: i8, %q: i8, %r: f32, %acc: f32):
    %pf = arith.sitofp %p : i8 to f32
    %qf = arith.sitofp %q : i8 to f32
    %qs = arith.mulf %qf, %r : f32
    %z = arith.mulf %pf, %qs : f32
    %t = arith.addf %acc, %z : f32
    linalg.yield %t : f32
  } -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
