// 'func.func(linalg-fuse-elementwise-ops)' then ''
// Lanes apart in the result were inserted by hundreds one by one, and bufferized for over a minute.
func.func @main(%a0: tensor<2x4xi8>, %a1: tensor<?x8x4xi8>, %a2: tensor<8x4xi2>, %a3: tensor<4x2x?xbf16>, %a4: tensor<?x2x8xbf16>, %a5: tensor<2x4xi8>, %a6: tensor<?x8x4xi8>) -> (tensor<?x8x2xf32>, tensor<?x2x8xbf16>, tensor<?x2x8xbf16>) {
  %v1 = arith.constant 0 : index
  %v2 = tensor.dim %a1, %v1 : tensor<?x8x4xi8>
  %v3 = tensor.empty(%v2) : tensor<?x4x8xi8>
  %v4 = linalg.transpose ins(%a1 : tensor<?x8x4xi8>) outs(%v3 : tensor<?x4x8xi8>) permutation = [0, 2, 1]
  %v5 = arith.constant 0 : index
  %v6 = tensor.dim %v4, %v5 : tensor<?x4x8xi8>
  %v7 = tensor.empty(%v6) : tensor<?x8x2xi32>
  %v8 = arith.constant 0 : i32
  %v9 = linalg.fill ins(%v8 : i32) outs(%v7 : tensor<?x8x2xi32>) -> tensor<?x8x2xi32>
  %v10 = linalg.generic {indexing_maps = [affine_map<(m, k, b, n) -> (m, k)>, affine_map<(m, k, b, n) -> (b, k, n)>, affine_map<(m, k, b, n) -> (b, n, m)>], iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%a0, %v4 : tensor<2x4xi8>, tensor<?x4x8xi8>) outs(%v9 : tensor<?x8x2xi32>) {
  ^bb0(%x0: i8, %x1: i8, %o0: i32):
    %w0 = arith.extsi %x0 : i8 to i32
    %z0 = arith.constant 0 : i32
    %d0 = arith.subi %w0, %z0 : i32
    %w1 = arith.extsi %x1 : i8 to i32
    %z1 = arith.constant -128 : i32
    %d1 = arith.subi %w1, %z1 : i32
    %p = arith.muli %d0, %d1 : i32
    %r0 = arith.addi %o0, %p : i32
    linalg.yield %r0 : i32
  } -> tensor<?x8x2xi32>
  %v11 = arith.constant dense<[0.25, -0.25, -2.50, 1.00, -2.25, 1.25, -2.25, -1.00]> : tensor<8xf32>
  %v12 = arith.constant 0 : index
  %v13 = tensor.dim %v10, %v12 : tensor<?x8x2xi32>
  %v14 = tensor.empty(%v13) : tensor<?x8x2xf32>
  %v15 = linalg.generic {indexing_maps = [affine_map<(b, n, m) -> (b, n, m)>, affine_map<(b, n, m) -> (n)>, affine_map<(b, n, m) -> (b, n, m)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v10, %v11 : tensor<?x8x2xi32>, tensor<8xf32>) outs(%v14 : tensor<?x8x2xf32>) {
  ^bb0(%x0: i32, %x1: f32, %o0: f32):
    %f = arith.sitofp %x0 : i32 to f32
    %r0 = arith.mulf %f, %x1 : f32
    linalg.yield %r0 : f32
  } -> tensor<?x8x2xf32>
  %v16 = arith.constant dense<[2.50, -2.00]> : tensor<2xf32>
  %v17 = arith.constant 0 : index
  %v18 = tensor.dim %v15, %v17 : tensor<?x8x2xf32>
  %v19 = tensor.empty(%v18) : tensor<?x8x2xf32>
  %v20 = linalg.generic {indexing_maps = [affine_map<(b, n, m) -> (b, n, m)>, affine_map<(b, n, m) -> (m)>, affine_map<(b, n, m) -> (b, n, m)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%v15, %v16 : tensor<?x8x2xf32>, tensor<2xf32>) outs(%v19 : tensor<?x8x2xf32>) {
  ^bb0(%x0: f32, %x1: f32, %o0: f32):
    %r0 = arith.addf %x0, %x1 : f32
    linalg.yield %r0 : f32
  } -> tensor<?x8x2xf32>
  %v21 = arith.constant dense<[[1.25, -2.25, -3.00, -1.00], [-3.00, -0.75, 1.00, -1.75], [0.50, -2.25, 0.75, 0.25], [-2.50, -2.75, -1.00, -2.50], [-2.00, -2.50, -0.50, 2.00], [-1.25, 2.75, -2.75, -1.25], [2.00, 2.00, -1.50, -0.50], [3.00, 3.00, 0.00, -0.75]]> : tensor<8x4xbf16>
  %v22 = tensor.empty() : tensor<8x4xbf16>
  %v23 = linalg.generic {indexing_maps = [affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n, k)>, affine_map<(n, k) -> (n, k)>], iterator_types = ["parallel", "parallel"]} ins(%a2, %v21 : tensor<8x4xi2>, tensor<8x4xbf16>) outs(%v22 : tensor<8x4xbf16>) {
  ^bb0(%x0: i2, %x1: bf16, %o0: bf16):
    %wide = arith.extsi %x0 : i2 to i32
    %z = arith.constant 1 : i32
    %less = arith.subi %wide, %z : i32
    %real = arith.sitofp %less : i32 to bf16
    %r0 = arith.mulf %real, %x1 : bf16
    linalg.yield %r0 : bf16
  } -> tensor<8x4xbf16>
  %v24 = tensor.empty() : tensor<4x8xbf16>
  %v25 = linalg.transpose ins(%v23 : tensor<8x4xbf16>) outs(%v24 : tensor<4x8xbf16>) permutation = [1, 0]
  %v26 = linalg.generic {indexing_maps = [affine_map<(k, m, b, n) -> (k, m, b)>, affine_map<(k, m, b, n) -> (k, n)>, affine_map<(k, m, b, n) -> (b, m, n)>], iterator_types = ["reduction", "parallel", "parallel", "parallel"]} ins(%a3, %v25 : tensor<4x2x?xbf16>, tensor<4x8xbf16>) outs(%a4 : tensor<?x2x8xbf16>) {
  ^bb0(%x0: bf16, %x1: bf16, %o0: bf16):
    %p = arith.mulf %x0, %x1 : bf16
    %r0 = arith.addf %o0, %p : bf16
    linalg.yield %r0 : bf16
  } -> tensor<?x2x8xbf16>
  %v27 = tensor.empty() : tensor<2x4xbf16>
  %v28 = linalg.generic {indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (m, k)>], iterator_types = ["parallel", "parallel"]} ins(%a5 : tensor<2x4xi8>) outs(%v27 : tensor<2x4xbf16>) {
  ^bb0(%x0: i8, %o0: bf16):
    %w = arith.extsi %x0 : i8 to i32
    %z = arith.constant 128 : i32
    %d = arith.subi %w, %z : i32
    %f = arith.sitofp %d : i32 to bf16
    %s = arith.constant 0.5 : bf16
    %r0 = arith.mulf %f, %s : bf16
    linalg.yield %r0 : bf16
  } -> tensor<2x4xbf16>
  %v29 = arith.constant dense<[[-49], [101], [-32], [-10], [-98], [-74], [13], [-123]]> : tensor<8x1xi8>
  %v30 = arith.constant dense<[2.00, 1.50, 2.50, 1.00, -2.00, -1.00, -3.00, 1.75]> : tensor<8xbf16>
  %v31 = arith.constant 0 : index
  %v32 = tensor.dim %a6, %v31 : tensor<?x8x4xi8>
  %v33 = tensor.empty(%v32) : tensor<?x8x4xbf16>
  %v34 = linalg.generic {indexing_maps = [affine_map<(b, n, k) -> (b, n, k)>, affine_map<(b, n, k) -> (n, k floordiv 4)>, affine_map<(b, n, k) -> (n)>, affine_map<(b, n, k) -> (b, n, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a6, %v29, %v30 : tensor<?x8x4xi8>, tensor<8x1xi8>, tensor<8xbf16>) outs(%v33 : tensor<?x8x4xbf16>) {
  ^bb0(%x0: i8, %x1: i8, %x2: bf16, %o0: bf16):
    %wide = arith.extsi %x0 : i8 to i32
    %z = arith.extui %x1 : i8 to i32
    %less = arith.subi %wide, %z : i32
    %real = arith.sitofp %less : i32 to bf16
    %r0 = arith.mulf %real, %x2 : bf16
    linalg.yield %r0 : bf16
  } -> tensor<?x8x4xbf16>
  %v35 = arith.constant 0 : index
  %v36 = tensor.dim %v34, %v35 : tensor<?x8x4xbf16>
  %v37 = tensor.empty(%v36) : tensor<?x4x8xbf16>
  %v38 = linalg.transpose ins(%v34 : tensor<?x8x4xbf16>) outs(%v37 : tensor<?x4x8xbf16>) permutation = [0, 2, 1]
  %v39 = arith.constant 0 : index
  %v40 = tensor.dim %v38, %v39 : tensor<?x4x8xbf16>
  %v41 = tensor.empty(%v40) : tensor<?x2x8xbf16>
  %v42 = arith.constant 0.0 : bf16
  %v43 = linalg.fill ins(%v42 : bf16) outs(%v41 : tensor<?x2x8xbf16>) -> tensor<?x2x8xbf16>
  %v44 = linalg.generic {indexing_maps = [affine_map<(k, m, n, b) -> (b, k, n)>, affine_map<(k, m, n, b) -> (m, k)>, affine_map<(k, m, n, b) -> (b, m, n)>], iterator_types = ["reduction", "parallel", "parallel", "parallel"]} ins(%v38, %v28 : tensor<?x4x8xbf16>, tensor<2x4xbf16>) outs(%v43 : tensor<?x2x8xbf16>) {
  ^bb0(%x0: bf16, %x1: bf16, %o0: bf16):
    %p = arith.mulf %x1, %x0 : bf16
    %r0 = arith.addf %o0, %p : bf16
    linalg.yield %r0 : bf16
  } -> tensor<?x2x8xbf16>
  return %v20, %v26, %v44 : tensor<?x8x2xf32>, tensor<?x2x8xbf16>, tensor<?x2x8xbf16>
}
