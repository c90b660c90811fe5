// Whichever step of planning fails, nothing is left half done.

// RUN: qtranspose-opt %s -o %t.before
// DEFINE: %{step} = none
// DEFINE: %{fail} = qtranspose-opt %s --qtranspose-static-lhs-to-rhs=fail-at=%{step} -o %t.after \
// DEFINE:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 \
// DEFINE:   | FileCheck %s -DSTEP=%{step} --implicit-check-not=remark: && diff %t.before %t.after
// REDEFINE: %{step} = shape-plan
// RUN: %{fail}
// REDEFINE: %{step} = derived-weight
// RUN: %{fail}
// REDEFINE: %{step} = quantization-lookup
// RUN: %{fail}
// REDEFINE: %{step} = compensation
// RUN: %{fail}
// REDEFINE: %{step} = bias-mapping
// RUN: %{fail}
// REDEFINE: %{step} = weight-lowering
// RUN: %{fail}

// CHECK: remark: [Missed] injected-failure | {{.*}} Function=everything | Reason="at [[STEP]]"
#id = affine_map<(d0, d1) -> (d0, d1)>
#col = affine_map<(d0, d1) -> (d0, 0)>
#b = affine_map<(b, m, n) -> (b, m, n)>
#bias = affine_map<(b, m, n) -> (m)>
// PITFALL 31
func.func @everything(%x: tensor<4x3x5xf32>, %bias: tensor<2xf32>, %init: tensor<4x2x5xf32>) -> tensor<4x2x5xf32> {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %q = arith.constant dense<[[1, 2, 0], [-1, 0, 3]]> : tensor<2x3xi8>
  %s = arith.constant dense<[[0.5], [2.0]]> : tensor<2x1xf32>
  %e = tensor.empty() : tensor<2x3xf32>
  %w = linalg.generic {indexing_maps = [#id, #col, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q, %s : tensor<2x3xi8>, tensor<2x1xf32>) outs(%e : tensor<2x3xf32>) {
  ^bb0(%in: i8, %k: f32, %out: f32):
    %c = arith.sitofp %in : i8 to f32
    %d = arith.mulf %c, %k : f32
    linalg.yield %d : f32
  } -> tensor<2x3xf32>
  %f = tensor.empty() : tensor<4x2x3xf32>
  %copies = linalg.broadcast ins(%w : tensor<2x3xf32>) outs(%f : tensor<4x2x3xf32>) dimensions = [0]
  %y = linalg.batch_matmul ins(%copies, %x : tensor<4x2x3xf32>, tensor<4x3x5xf32>) outs(%init : tensor<4x2x5xf32>) -> tensor<4x2x5xf32>
  %r = linalg.generic {indexing_maps = [#b, #bias, #b], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%y, %bias : tensor<4x2x5xf32>, tensor<2xf32>) outs(%init : tensor<4x2x5xf32>) {
  ^bb0(%in: f32, %k: f32, %out: f32):
    %d = arith.addf %in, %k : f32
    linalg.yield %d : f32
  } -> tensor<4x2x5xf32>
  return %r : tensor<4x2x5xf32>
}
