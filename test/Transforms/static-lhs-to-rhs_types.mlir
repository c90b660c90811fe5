// Element types and sources of data: what cannot be re-ordered when compiling is transposed by the program.

// RUN: qtranspose-opt %s --split-input-file --qtranspose-static-lhs-to-rhs | FileCheck %s

// CHECK-LABEL: func.func @complex(
// CHECK:         arith.constant {{.*}} dense<{{\[}}[(1.000000e+00,2.000000e+00), (-1.000000e+00,3.000000e+00)], [(2.000000e+00,1.000000e+00), (0.000000e+00,5.000000e+00)]]> : tensor<2x2xcomplex<f32>>
// CHECK:         linalg.matmul
func.func @complex(%x: tensor<2x4xcomplex<f32>>, %i: tensor<2x4xcomplex<f32>>) -> tensor<2x4xcomplex<f32>> {
  %w = arith.constant dense<[[(1.,2.), (2.,1.)], [(-1.,3.), (0.,5.)]]> : tensor<2x2xcomplex<f32>>
  %y = linalg.matmul ins(%w, %x : tensor<2x2xcomplex<f32>>, tensor<2x4xcomplex<f32>>) outs(%i : tensor<2x4xcomplex<f32>>) -> tensor<2x4xcomplex<f32>>
  return %y : tensor<2x4xcomplex<f32>>
}

// -----

// On booleans, or and and are the sum and the product.

// CHECK-LABEL: func.func @boolean(
// CHECK:         arith.constant {{.*}} dense<{{\[}}[true, false], [true, true], [false, false]]> : tensor<3x2xi1>
// CHECK:         linalg.matmul
func.func @boolean(%x: tensor<3x4xi1>, %i: tensor<2x4xi1>) -> tensor<2x4xi1> {
  %w = arith.constant dense<[[1, 1, 0], [0, 1, 0]]> : tensor<2x3xi1>
  %y = linalg.matmul ins(%w, %x : tensor<2x3xi1>, tensor<3x4xi1>) outs(%i : tensor<2x4xi1>) -> tensor<2x4xi1>
  return %y : tensor<2x4xi1>
}

// -----

// CHECK-LABEL: func.func @wide(
// CHECK:         arith.constant {{.*}} dense<{{\[}}[1, 0], [1, 1], [0, -170141183460469231731687303715884105728]]> : tensor<3x2xi128>
func.func @wide(%x: tensor<3x4xi128>, %i: tensor<2x4xi128>) -> tensor<2x4xi128> {
  %w = arith.constant dense<[[1, 1, 0], [0, 1, -170141183460469231731687303715884105728]]> : tensor<2x3xi128>
  %y = linalg.matmul ins(%w, %x : tensor<2x3xi128>, tensor<3x4xi128>) outs(%i : tensor<2x4xi128>) -> tensor<2x4xi128>
  return %y : tensor<2x4xi128>
}

// -----

// The data are not there, or not of the type's size.

// CHECK-LABEL: func.func @elided(
// CHECK:         %[[W:.*]] = arith.constant dense_resource<__elided__> : tensor<2x3xf32>
// CHECK:         linalg.transpose ins(%[[W]] : tensor<2x3xf32>)
func.func @elided(%x: tensor<3x4xf32>, %i: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = arith.constant dense_resource<__elided__> : tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x4xf32>) outs(%i : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @too_short(
// CHECK:         %[[W:.*]] = arith.constant dense_resource<too_short> : tensor<2x3xf32>
// CHECK:         linalg.transpose ins(%[[W]] : tensor<2x3xf32>)
func.func @too_short(%x: tensor<3x4xf32>, %i: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = arith.constant dense_resource<too_short> : tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x4xf32>) outs(%i : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

{-# dialect_resources: { builtin: { too_short: "0x0400000000000000" } } #-}

// -----

// CHECK-LABEL: func.func @sparse(
// CHECK:         %[[W:.*]] = arith.constant sparse<
// CHECK:         linalg.transpose ins(%[[W]] : tensor<2x3xf32>)
func.func @sparse(%x: tensor<3x4xf32>, %i: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = arith.constant sparse<[[0, 0], [1, 2]], [1.0, 5.0]> : tensor<2x3xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x3xf32>, tensor<3x4xf32>) outs(%i : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// What the body says about its arithmetic stays with it.

// CHECK-LABEL: func.func @fast(
// CHECK:         linalg.generic
// CHECK:           arith.mulf %{{.*}}, %{{.*}} fastmath<fast> : f32
#w = affine_map<(m, n, k) -> (m, k)>
#a = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
func.func @fast(%x: tensor<3x4xf32>, %i: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = arith.constant dense<[[1., 2., 0.], [-1., 0., 3.]]> : tensor<2x3xf32>
  %y = linalg.generic {indexing_maps = [#w, #a, #y], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%w, %x : tensor<2x3xf32>, tensor<3x4xf32>) outs(%i : tensor<2x4xf32>) {
  ^bb0(%l: f32, %r: f32, %acc: f32):
    %p = arith.mulf %l, %r fastmath<fast> : f32
    %s = arith.addf %acc, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// A codebook inside a function that dequantizes is copied to where it is read now.

// CHECK-LABEL: func.func @codebook(
// CHECK:         %[[T:.*]] = arith.constant dense<[5.000000e-01, -1.000000e+00, 2.000000e+00, 3.500000e+00]> : tensor<4xf32>
// CHECK:         tensor.extract %[[T]]
// CHECK:         linalg.matmul
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func private @dequantize(%q: tensor<2x4xi8>) -> tensor<2x4xf32> {
  %table = arith.constant dense<[0.5, -1.0, 2.0, 3.5]> : tensor<4xf32>
  %e = tensor.empty() : tensor<2x4xf32>
  %w = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%q : tensor<2x4xi8>) outs(%e : tensor<2x4xf32>) {
  ^bb0(%in: i8, %out: f32):
    %i = arith.index_castui %in : i8 to index
    %v = tensor.extract %table[%i] : tensor<4xf32>
    linalg.yield %v : f32
  } -> tensor<2x4xf32>
  return %w : tensor<2x4xf32>
}
func.func @codebook(%x: tensor<4x5xf32>, %i: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %q = arith.constant dense<[[1, 2, 0, 3], [3, 0, 3, 1]]> : tensor<2x4xi8>
  %w = call @dequantize(%q) : (tensor<2x4xi8>) -> tensor<2x4xf32>
  %y = linalg.matmul ins(%w, %x : tensor<2x4xf32>, tensor<4x5xf32>) outs(%i : tensor<2x5xf32>) -> tensor<2x5xf32>
  return %y : tensor<2x5xf32>
}
