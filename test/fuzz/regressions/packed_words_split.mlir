// '' then 'qtranspose-absorb-transposes'
// What computes the source splits a dim further than the transpose: an assertion in the process.
func.func @main(%words: tensor<5x4xi8>) -> tensor<1x8x5xf32> {
  %e = tensor.empty() : tensor<5x8xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(n, k) -> (n, k floordiv 2)>, affine_map<(n, k) -> (n, k)>],
      iterator_types = ["parallel", "parallel"]} ins(%words : tensor<5x4xi8>) outs(%e : tensor<5x8xf32>) {
  ^bb0(%word: i8, %o: f32):
    %k = linalg.index 1 : index
    %two = arith.constant 2 : index
    %lane = arith.remui %k, %two : index
    %place = arith.index_cast %lane : index to i8
    %four = arith.constant 4 : i8
    %shift = arith.muli %place, %four : i8
    %moved = arith.shrui %word, %shift : i8
    %f = arith.uitofp %moved : i8 to f32
    linalg.yield %f : f32
  } -> tensor<5x8xf32>
  %x = tensor.expand_shape %w [[0, 1], [2]] output_shape [1, 5, 8] : tensor<5x8xf32> into tensor<1x5x8xf32>
  %et = tensor.empty() : tensor<1x8x5xf32>
  %t = linalg.transpose ins(%x : tensor<1x5x8xf32>) outs(%et : tensor<1x8x5xf32>) permutation = [0, 2, 1]
  return %t : tensor<1x8x5xf32>
}
