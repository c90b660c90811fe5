// Each refusal has a name, and leaves the module byte-identical: dead ops and duplicate constants included.

// RUN: qtranspose-opt %s --split-input-file -o %t.before
// RUN: qtranspose-opt %s --split-input-file --qtranspose-fold-transpose-into-dequant -o %t.after
// RUN: diff %t.before %t.after
// RUN: qtranspose-opt %s --split-input-file --qtranspose-fold-transpose-into-dequant -o /dev/null \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --implicit-check-not=remark:

// A plain weight: nothing is converted.

// CHECK: remark: [Missed] not-a-dequantization | {{.*}} Function=plain_constant | Reason="the value is produced by 'arith.constant'"
func.func @plain_constant(%x: tensor<1x3xf32>, %acc: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %w = arith.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %f = tensor.empty() : tensor<3x2xf32>
  %t = linalg.transpose ins(%w : tensor<2x3xf32>) outs(%f : tensor<3x2xf32>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<1x3xf32>, tensor<3x2xf32>) outs(%acc : tensor<1x2xf32>) -> tensor<1x2xf32>
  return %y : tensor<1x2xf32>
}

// -----

// Elementwise, but of an activation in f32; the converted bias does not make it a dequantization.

// CHECK: remark: [Missed] not-a-dequantization | {{.*}} Function=activation | Reason="no stored value is converted above the transpose"
#id = affine_map<(d0, d1) -> (d0, d1)>
#axis = affine_map<(d0, d1) -> (d1)>
func.func @activation(%x: tensor<3x5xf32>, %bias: tensor<5xf16>) -> tensor<5x3xf32> {
  %dead = arith.constant dense<1> : tensor<3xi8>
  %again = arith.constant dense<1> : tensor<3xi8>
  %e = tensor.empty() : tensor<3x5xf32>
  %0 = linalg.generic {indexing_maps = [#id, #axis, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x, %bias : tensor<3x5xf32>, tensor<5xf16>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: f32, %b: f16, %out: f32):
    %c = arith.extf %b : f16 to f32
    %a = arith.addf %in, %c : f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%0 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}

// -----

// A low-rank update merged into the dequantized weight: not a parameter.

// CHECK: remark: [Missed] not-a-dequantization | {{.*}} Function=merged_update | Reason="depends on the result of 'linalg.matmul'"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @merged_update(%q: tensor<3x5xi8>, %a: tensor<3x1xf32>, %b: tensor<1x5xf32>) -> tensor<5x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x5xf32>
  %m = linalg.matmul ins(%a, %b : tensor<3x1xf32>, tensor<1x5xf32>) outs(%e : tensor<3x5xf32>) -> tensor<3x5xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %m : tensor<3x5xi8>, tensor<3x5xf32>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %u: f32, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    %d = arith.addf %c, %u : f32
    linalg.yield %d : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%0 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}

// -----

// Carried by a loop: not a parameter either.

// CHECK: remark: [Missed] not-a-dequantization | {{.*}} Function=loop_carried | Reason="depends on a value carried by a loop or block"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @loop_carried(%q: tensor<3x3xi8>, %n: index) -> tensor<3x3xi8> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %e = tensor.empty() : tensor<3x3xf32>
  %f = tensor.empty() : tensor<3x3xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%w = %q) -> tensor<3x3xi8> {
    %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
        ins(%w : tensor<3x3xi8>) outs(%e : tensor<3x3xf32>) {
    ^bb0(%in: i8, %out: f32):
      %a = arith.sitofp %in : i8 to f32
      linalg.yield %a : f32
    } -> tensor<3x3xf32>
    %t = linalg.transpose ins(%0 : tensor<3x3xf32>) outs(%f : tensor<3x3xf32>) permutation = [1, 0]
    %next = arith.fptosi %t : tensor<3x3xf32> to tensor<3x3xi8>
    scf.yield %next : tensor<3x3xi8>
  }
  return %r : tensor<3x3xi8>
}

// -----

// A stored tensor that a matmul reads as it is.

// CHECK: remark: [Missed] not-a-dequantization | {{.*}} Function=integer_matmul | Reason="the value is an argument as it stands"
func.func @integer_matmul(%x: tensor<1x3xi8>, %q: tensor<2x3xi8>, %acc: tensor<1x2xi32>) -> tensor<1x2xi32> {
  %f = tensor.empty() : tensor<3x2xi8>
  %t = linalg.transpose ins(%q : tensor<2x3xi8>) outs(%f : tensor<3x2xi8>) permutation = [1, 0]
  %y = linalg.matmul ins(%x, %t : tensor<1x3xi8>, tensor<3x2xi8>) outs(%acc : tensor<1x2xi32>) -> tensor<1x2xi32>
  return %y : tensor<1x2xi32>
}

// -----

// CHECK: remark: [Missed] data-movement-in-between | {{.*}} Function=reshape | Reason="'tensor.collapse_shape' stands above the transpose"
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// PITFALL 13
func.func @reshape(%q: tensor<3x2x5xi8>) -> tensor<10x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x2x5xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%q : tensor<3x2x5xi8>) outs(%e : tensor<3x2x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x2x5xf32>
  %1 = tensor.collapse_shape %0 [[0], [1, 2]] : tensor<3x2x5xf32> into tensor<3x10xf32>
  %f = tensor.empty() : tensor<10x3xf32>
  %t = linalg.transpose ins(%1 : tensor<3x10xf32>) outs(%f : tensor<10x3xf32>) permutation = [1, 0]
  return %t : tensor<10x3xf32>
}

// -----

// The conversion happens in an op that reduces; the op above it only scales.

// CHECK: remark: [Missed] not-elementwise | {{.*}} Function=reduction | Reason="'linalg.generic' has a reduction"
#id = affine_map<(d0, d1) -> (d0, d1)>
#in = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#out = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func @reduction(%q: tensor<3x5x2xi8>) -> tensor<5x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %half = arith.constant 5.000000e-01 : f32
  %e = tensor.empty() : tensor<3x5xf32>
  %0 = linalg.generic {indexing_maps = [#in, #out], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%q : tensor<3x5x2xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    %b = arith.addf %a, %out : f32
    linalg.yield %b : f32
  } -> tensor<3x5xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<3x5xf32>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: f32, %out: f32):
    %a = arith.mulf %in, %half : f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%1 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}

// -----

// CHECK: remark: [Missed] reads-its-init | {{.*}} Function=reads_outs
#id = affine_map<(d0, d1) -> (d0, d1)>
// PITFALL 18
func.func @reads_outs(%q: tensor<3x5xi8>, %e: tensor<3x5xf32>) -> tensor<5x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    %b = arith.addf %a, %out : f32
    linalg.yield %b : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%0 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}

// -----

// CHECK: remark: [Missed] several-results | {{.*}} Function=two_results | Reason="'linalg.generic' has 2 results"
#id = affine_map<(d0, d1) -> (d0, d1)>
// PITFALL 18
func.func @two_results(%q: tensor<3x5xi8>) -> (tensor<5x3xf32>, tensor<3x5xf32>) {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x5xf32>
  %0:2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e, %e : tensor<3x5xf32>, tensor<3x5xf32>) {
  ^bb0(%in: i8, %o0: f32, %o1: f32):
    %a = arith.sitofp %in : i8 to f32
    %b = arith.negf %a : f32
    linalg.yield %a, %b : f32, f32
  } -> (tensor<3x5xf32>, tensor<3x5xf32>)
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%0#0 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t, %0#1 : tensor<5x3xf32>, tensor<3x5xf32>
}

// -----

// CHECK: remark: [Missed] uses-index | {{.*}} Function=index
#id = affine_map<(d0, d1) -> (d0, d1)>
// PITFALL 18
func.func @index(%q: tensor<3x5xi8>) -> tensor<5x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x5xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i8
    %a = arith.addi %in, %j : i8
    %b = arith.sitofp %a : i8 to f32
    linalg.yield %b : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%0 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}

// -----

// A codebook.

// CHECK: remark: [Missed] gathers-elements | {{.*}} Function=gather | Reason="the body reads a tensor through 'tensor.extract'"
#id = affine_map<(d0, d1) -> (d0, d1)>
// PITFALL 18
func.func @gather(%q: tensor<3x5xi8>, %table: tensor<16xf32>) -> tensor<5x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x5xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %i = arith.index_castui %in : i8 to index
    %a = tensor.extract %table[%i] : tensor<16xf32>
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%0 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}

// -----

// CHECK: remark: [Missed] side-effects-in-body | {{.*}} Function=effects | Reason="'cf.assert' in the body may have side effects"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @effects(%q: tensor<3x5xi8>, %valid: i1) -> tensor<5x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x5xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    cf.assert %valid, "invalid"
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%0 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}

// -----

// CHECK: remark: [Missed] library-call | {{.*}} Function=library | Reason="'linalg.generic' calls 'dequantize_rows'"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @library(%q: tensor<3x5xi8>) -> tensor<5x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x5xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"],
                       library_call = "dequantize_rows"}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%0 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}

// -----

// Memrefs: named, and as a copying generic.

// CHECK-DAG: remark: [Missed] memref-operands | {{.*}} Function=buffers
// CHECK-DAG: remark: [Missed] memref-operands | {{.*}} Function=buffers
#id = affine_map<(d0, d1) -> (d0, d1)>
#permuted = affine_map<(d0, d1) -> (d1, d0)>
// PITFALL 20
func.func @buffers(%a: memref<3x5xf32>, %b: memref<5x3xf32>) {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  linalg.transpose ins(%a : memref<3x5xf32>) outs(%b : memref<5x3xf32>) permutation = [1, 0]
  linalg.generic {indexing_maps = [#permuted, #id], iterator_types = ["parallel", "parallel"]}
      ins(%b : memref<5x3xf32>) outs(%a : memref<3x5xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  }
  return
}

// -----

// An encoding on a tensor that would get another layout; one that an identity would have to change.

// CHECK-DAG: remark: [Missed] tensor-encoding | {{.*}} Function=encoding | Reason="the result of 'linalg.generic' has an encoding"
// CHECK-DAG: remark: [Missed] tensor-encoding | {{.*}} Function=encoding | Reason="the transpose cancels, but its result's encoding differs"
#id = affine_map<(d0, d1) -> (d0, d1)>
// PITFALL 21
func.func @encoding(%q: tensor<3x5xi8>, %x: tensor<3xf32>, %o: tensor<3xf32, "rows">)
    -> (tensor<5x3xf32>, tensor<3xf32, "rows">) {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x5xf32, "rows">
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32, "rows">) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32, "rows">
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%0 : tensor<3x5xf32, "rows">) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %u = linalg.transpose ins(%x : tensor<3xf32>) outs(%o : tensor<3xf32, "rows">) permutation = [0]
  return %t, %u : tensor<5x3xf32>, tensor<3xf32, "rows">
}

// -----

// Not lowered yet: the axis of the type would have to move, too.

// CHECK: remark: [Missed] quantized-element-type | {{.*}} Function=quant | Reason="'quant.dcast' has a quantized element type"
!axis = !quant.uniform<i8:f32:0, {1.0, 0.5, 0.25}>
// PITFALL 3
func.func @quant(%q: tensor<3x5xi8>) -> tensor<5x3xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %0 = quant.scast %q : tensor<3x5xi8> to tensor<3x5x!axis>
  %1 = quant.dcast %0 : tensor<3x5x!axis> to tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%1 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  return %t : tensor<5x3xf32>
}

// -----

// Attributes that contradict each other, and one that would be left without an op.

// CHECK-DAG: remark: [Missed] discardable-attribute | {{.*}} Function=attributes | Reason="'tag' differs
// CHECK-DAG: remark: [Missed] discardable-attribute | {{.*}} Function=attributes | Reason="the transpose cancels,
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @attributes(%q: tensor<3x5xi8>, %x: tensor<3xf32>) -> (tensor<5x3xf32>, tensor<3xf32>) {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x5xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) attrs = {tag = "rows"} {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%0 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0] {tag = "columns"}
  %u = linalg.transpose ins(%x : tensor<3xf32>) outs(%x : tensor<3xf32>) permutation = [0] {tag = "one"}
  return %t, %u : tensor<5x3xf32>, tensor<3xf32>
}

// -----

// Cloning would read as many bytes as the transpose: i32 storage, f16 values.

// CHECK: remark: [Missed] multi-use | {{.*}} Function=wide_storage
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @wide_storage(%q: tensor<3x5xi32>) -> (tensor<5x3xf16>, tensor<3x5xf16>) {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x5xf16>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi32>) outs(%e : tensor<3x5xf16>) {
  ^bb0(%in: i32, %out: f16):
    %a = arith.sitofp %in : i32 to f16
    linalg.yield %a : f16
  } -> tensor<3x5xf16>
  %f = tensor.empty() : tensor<5x3xf16>
  %t = linalg.transpose ins(%0 : tensor<3x5xf16>) outs(%f : tensor<5x3xf16>) permutation = [1, 0]
  return %t, %0 : tensor<5x3xf16>, tensor<3x5xf16>
}

// -----

// Dead code is somebody else's: a transpose of a dequantization, and an identity.

// CHECK-DAG: remark: [Missed] no-users | {{.*}} Function=dead
// CHECK-DAG: remark: [Missed] no-users | {{.*}} Function=dead
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @dead(%q: tensor<3x5xi8>, %x: tensor<3xf32>) {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x5xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x5xi8>) outs(%e : tensor<3x5xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x5xf32>
  %f = tensor.empty() : tensor<5x3xf32>
  %t = linalg.transpose ins(%0 : tensor<3x5xf32>) outs(%f : tensor<5x3xf32>) permutation = [1, 0]
  %u = linalg.transpose ins(%x : tensor<3xf32>) outs(%x : tensor<3xf32>) permutation = [0]
  return
}

// -----

// Not quite transposes: a copy in order, a broadcast, a cast, two inputs, a cut diagonal. Nothing is said of them.

#id = affine_map<(d0, d1) -> (d0, d1)>
#permuted = affine_map<(d0, d1) -> (d1, d0)>
#second = affine_map<(d0, d1) -> (d1)>
#twice = affine_map<(d0, d1) -> (d0, d0)>
// PITFALL 19
func.func @near_misses(%q: tensor<3x3xi8>, %x: tensor<3xf32>, %s: f32) -> (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf16>,
                                                            tensor<3x3xf32>, tensor<3x3xf32>) {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %e = tensor.empty() : tensor<3x3xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<3x3xi8>) outs(%e : tensor<3x3xf32>) {
  ^bb0(%in: i8, %out: f32):
    %a = arith.sitofp %in : i8 to f32
    linalg.yield %a : f32
  } -> tensor<3x3xf32>
  %copy = linalg.generic {indexing_maps = [#permuted, #permuted], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<3x3xf32>) outs(%e : tensor<3x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<3x3xf32>
  %broadcast = linalg.generic {indexing_maps = [#second, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<3xf32>) outs(%e : tensor<3x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<3x3xf32>
  %h = tensor.empty() : tensor<3x3xf16>
  %cast = linalg.generic {indexing_maps = [#permuted, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<3x3xf32>) outs(%h : tensor<3x3xf16>) {
  ^bb0(%in: f32, %out: f16):
    %a = arith.truncf %in : f32 to f16
    linalg.yield %a : f16
  } -> tensor<3x3xf16>
  %two = linalg.generic {indexing_maps = [#permuted, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0, %e : tensor<3x3xf32>, tensor<3x3xf32>) outs(%e : tensor<3x3xf32>) {
  ^bb0(%in: f32, %other: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<3x3xf32>
  %diagonal = linalg.generic {indexing_maps = [#twice, #id], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<3x3xf32>) outs(%e : tensor<3x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<3x3xf32>
  return %copy, %broadcast, %cast, %two, %diagonal
      : tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf16>, tensor<3x3xf32>, tensor<3x3xf32>
}

// -----

// In a block that cannot be reached a value may depend on itself.

func.func @unreachable(%e: tensor<3x3xf32>) {
  return
^bb1:
  %t = linalg.transpose ins(%u : tensor<3x3xf32>) outs(%e : tensor<3x3xf32>) permutation = [1, 0]
  %u = linalg.transpose ins(%t : tensor<3x3xf32>) outs(%e : tensor<3x3xf32>) permutation = [1, 0]
  cf.br ^bb1
}
