// 'func.func(linalg-generalize-named-ops,linalg-fold-unit-extent-dims,linalg-fuse-elementwise-ops),canonicalize,cse' then 'qtranspose-default'
// Upstream bufferizes the concatenation to a subview out of bounds.
func.func @main(%a0: tensor<12x1xf64>) -> (tensor<0x1xf64>) {
  %v1 = arith.constant dense<> : tensor<0x3xi8>
  %v2 = tensor.empty() : tensor<0x3xi8>
  %v3 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v1 : tensor<0x3xi8>) outs(%v2 : tensor<0x3xi8>) {
  ^bb0(%x0: i8, %o: i8):
    %s = arith.constant 0 : i8
    %m = arith.constant 3 : i8
    %t = arith.shrui %x0, %s : i8
    %r = arith.andi %t, %m : i8
    linalg.yield %r : i8
  } -> tensor<0x3xi8>
  %v4 = tensor.empty() : tensor<0x3xi8>
  %v5 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v1 : tensor<0x3xi8>) outs(%v4 : tensor<0x3xi8>) {
  ^bb0(%x0: i8, %o: i8):
    %s = arith.constant 2 : i8
    %m = arith.constant 3 : i8
    %t = arith.shrui %x0, %s : i8
    %r = arith.andi %t, %m : i8
    linalg.yield %r : i8
  } -> tensor<0x3xi8>
  %v6 = tensor.empty() : tensor<0x3xi8>
  %v7 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v1 : tensor<0x3xi8>) outs(%v6 : tensor<0x3xi8>) {
  ^bb0(%x0: i8, %o: i8):
    %s = arith.constant 4 : i8
    %m = arith.constant 3 : i8
    %t = arith.shrui %x0, %s : i8
    %r = arith.andi %t, %m : i8
    linalg.yield %r : i8
  } -> tensor<0x3xi8>
  %v8 = tensor.empty() : tensor<0x3xi8>
  %v9 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v1 : tensor<0x3xi8>) outs(%v8 : tensor<0x3xi8>) {
  ^bb0(%x0: i8, %o: i8):
    %s = arith.constant 6 : i8
    %m = arith.constant 3 : i8
    %t = arith.shrui %x0, %s : i8
    %r = arith.andi %t, %m : i8
    linalg.yield %r : i8
  } -> tensor<0x3xi8>
  %v10 = tensor.expand_shape %v3 [[0], [1, 2]] output_shape [0, 3, 1] : tensor<0x3xi8> into tensor<0x3x1xi8>
  %v11 = tensor.expand_shape %v5 [[0], [1, 2]] output_shape [0, 3, 1] : tensor<0x3xi8> into tensor<0x3x1xi8>
  %v12 = tensor.expand_shape %v7 [[0], [1, 2]] output_shape [0, 3, 1] : tensor<0x3xi8> into tensor<0x3x1xi8>
  %v13 = tensor.expand_shape %v9 [[0], [1, 2]] output_shape [0, 3, 1] : tensor<0x3xi8> into tensor<0x3x1xi8>
  %v14 = tensor.concat dim(2) %v10, %v11 : (tensor<0x3x1xi8>, tensor<0x3x1xi8>) -> tensor<0x3x2xi8>
  %v15 = tensor.concat dim(2) %v14, %v12 : (tensor<0x3x2xi8>, tensor<0x3x1xi8>) -> tensor<0x3x3xi8>
  %v16 = tensor.concat dim(2) %v15, %v13 : (tensor<0x3x3xi8>, tensor<0x3x1xi8>) -> tensor<0x3x4xi8>
  %v17 = tensor.collapse_shape %v16 [[0], [1, 2]] : tensor<0x3x4xi8> into tensor<0x12xi8>
  %v18 = tensor.empty() : tensor<0x12xf64>
  %v19 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v17 : tensor<0x12xi8>) outs(%v18 : tensor<0x12xf64>) {
  ^bb0(%x0: i8, %o: f64):
    %r = arith.sitofp %x0 : i8 to f64
    linalg.yield %r : f64
  } -> tensor<0x12xf64>
  %v20 = arith.constant dense<-1.25> : tensor<0x1xf64>
  %v21 = tensor.empty() : tensor<0x12xf64>
  %v22 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%v19, %v20 : tensor<0x12xf64>, tensor<0x1xf64>) outs(%v21 : tensor<0x12xf64>) {
  ^bb0(%x0: f64, %x1: f64, %o: f64):
    %r = arith.mulf %x0, %x1 : f64
    linalg.yield %r : f64
  } -> tensor<0x12xf64>
  %v23 = tensor.empty() : tensor<0x1xf64>
  %v24 = arith.constant 0.0 : f64
  %v25 = linalg.fill ins(%v24 : f64) outs(%v23 : tensor<0x1xf64>) -> tensor<0x1xf64>
  %v26 = tensor.empty() : tensor<1x12xf64>
  %v27 = linalg.transpose ins(%a0 : tensor<12x1xf64>) outs(%v26 : tensor<1x12xf64>) permutation = [1, 0]
  %v28 = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>] ins(%v22, %v27 : tensor<0x12xf64>, tensor<1x12xf64>) outs(%v25 : tensor<0x1xf64>) -> tensor<0x1xf64>
  return %v28 : tensor<0x1xf64>
}
