// RUN: qtranspose-opt %s --split-input-file --qtranspose-absorb-transposes -o %t.once
// RUN: FileCheck %s --input-file=%t.once --implicit-check-not=linalg.transpose
// RUN: qtranspose-opt %t.once --split-input-file --qtranspose-absorb-transposes -o %t.twice
// RUN: diff %t.once %t.twice
// RUN: qtranspose-opt %s --split-input-file --qtranspose-absorb-transposes -o /dev/null \
// RUN:   --remarks-filter='qtranspose.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// A contraction reads through its map.

// CHECK-DAG: #[[$LHS:.*]] = affine_map<(d0, d1, d2) -> (d2, d0)>
// CHECK-DAG: #[[$RHS:.*]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-LABEL: func.func @matmul(
// CHECK-SAME:      %[[A:.*]]: tensor<64x5xf32>, %[[B:.*]]: tensor<64x7xf32>
// CHECK:         linalg.matmul indexing_maps = [#[[$LHS]], #[[$RHS]], #{{.*}}] ins(%[[A]], %[[B]] :
// REMARK: remark: [Passed] absorbed | Category:qtranspose:qtranspose-absorb-transposes | Function=matmul | Remark="read in this order by 1 op"
func.func @matmul(%a: tensor<64x5xf32>, %b: tensor<64x7xf32>, %c: tensor<5x7xf32>) -> tensor<5x7xf32> {
  %e = tensor.empty() : tensor<5x64xf32>
  %t = linalg.transpose ins(%a : tensor<64x5xf32>) outs(%e : tensor<5x64xf32>) permutation = [1, 0]
  %r = linalg.matmul ins(%t, %b : tensor<5x64xf32>, tensor<64x7xf32>) outs(%c : tensor<5x7xf32>) -> tensor<5x7xf32>
  return %r : tensor<5x7xf32>
}

// -----

// Heads change places with rows, in two spellings of the transpose; a batch dim
// that is not outermost needs a generic.

// CHECK-DAG: #[[$Q:.*]] = affine_map<(d0, d1, d2, d3) -> (d1, d0, d3)>
// CHECK-DAG: #[[$K:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d0, d3)>
// CHECK-LABEL: func.func @heads(
// CHECK-SAME:      %[[Y:.*]]: tensor<5x64xf32>, %[[K:.*]]: tensor<7x4x16xf32>
// CHECK:         %[[H:.*]] = tensor.expand_shape %[[Y]] {{\[\[}}0], [1, 2]] output_shape [5, 4, 16]
// CHECK:         linalg.generic {indexing_maps = [#[[$Q]], #[[$K]], #{{.*}}], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
// CHECK-SAME:        ins(%[[H]], %[[K]] :
#kt = affine_map<(d0, d1, d2) -> (d2, d0, d1)>
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @heads(%y: tensor<5x64xf32>, %k: tensor<7x4x16xf32>, %s: tensor<4x5x7xf32>) -> tensor<4x5x7xf32> {
  %h = tensor.expand_shape %y [[0], [1, 2]] output_shape [5, 4, 16] : tensor<5x64xf32> into tensor<5x4x16xf32>
  %e = tensor.empty() : tensor<4x5x16xf32>
  %q = linalg.transpose ins(%h : tensor<5x4x16xf32>) outs(%e : tensor<4x5x16xf32>) permutation = [1, 0, 2]
  %f = tensor.empty() : tensor<4x16x7xf32>
  %t = linalg.generic {indexing_maps = [#kt, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%k : tensor<7x4x16xf32>) outs(%f : tensor<4x16x7xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4x16x7xf32>
  %r = linalg.batch_matmul ins(%q, %t : tensor<4x5x16xf32>, tensor<4x16x7xf32>) outs(%s : tensor<4x5x7xf32>) -> tensor<4x5x7xf32>
  return %r : tensor<4x5x7xf32>
}

// -----

// The reshape that merges the heads is undone by two sums, in the same order.

// CHECK-DAG: #[[$S:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d0, d3)>
// CHECK-DAG: #[[$W:.*]] = affine_map<(d0, d1, d2, d3) -> (d2, d3, d1)>
// CHECK-LABEL: func.func @merge_heads(
// CHECK-SAME:      %[[A:.*]]: tensor<4x5x16xf32>, %[[W:.*]]: tensor<64x10xf32>
// CHECK:         %[[V:.*]] = tensor.expand_shape %[[W]] {{\[\[}}0, 1], [2]] output_shape [4, 16, 10]
// CHECK:         linalg.generic {indexing_maps = [#[[$S]], #[[$W]], #{{.*}}], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
// CHECK-SAME:        ins(%[[A]], %[[V]] :
func.func @merge_heads(%a: tensor<4x5x16xf32>, %w: tensor<64x10xf32>, %c: tensor<5x10xf32>) -> tensor<5x10xf32> {
  %e = tensor.empty() : tensor<5x4x16xf32>
  %t = linalg.transpose ins(%a : tensor<4x5x16xf32>) outs(%e : tensor<5x4x16xf32>) permutation = [1, 0, 2]
  %m = tensor.collapse_shape %t [[0], [1, 2]] : tensor<5x4x16xf32> into tensor<5x64xf32>
  %r = linalg.matmul ins(%m, %w : tensor<5x64xf32>, tensor<64x10xf32>) outs(%c : tensor<5x10xf32>) -> tensor<5x10xf32>
  return %r : tensor<5x10xf32>
}

// -----

// Nothing but the source can absorb it: the result is written in order, and its
// size read off the new value.

// CHECK-DAG: #[[$OUT:.*]] = affine_map<(d0, d1, d2) -> (d1, d0)>
// CHECK-LABEL: func.func @into_source(
// CHECK-SAME:      %[[A:.*]]: tensor<?x5xf32>, %[[B:.*]]: tensor<5x?xf32>, %[[M:.*]]: index, %[[N:.*]]: index
// CHECK:         %[[E:.*]] = tensor.empty(%[[N]], %[[M]])
// CHECK:         %[[F:.*]] = linalg.fill {{.*}} outs(%[[E]] :
// CHECK:         %[[R:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #{{.*}}, #[[$OUT]]]
// CHECK-SAME:        ins(%[[A]], %[[B]] : {{.*}}) outs(%[[F]] :
// CHECK:         %[[D:.*]] = tensor.dim %[[R]], %c1
// CHECK:         return %[[R]], %[[D]]
// REMARK: Function=into_source | Remark="the source is written in this order"
// PITFALL 16
func.func @into_source(%a: tensor<?x5xf32>, %b: tensor<5x?xf32>, %m: index, %n: index) -> (tensor<?x?xf32>, index) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %e = tensor.empty(%m, %n) : tensor<?x?xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %s = linalg.matmul ins(%a, %b : tensor<?x5xf32>, tensor<5x?xf32>) outs(%f : tensor<?x?xf32>) -> tensor<?x?xf32>
  %d = tensor.dim %s, %c0 : tensor<?x?xf32>
  %g = tensor.empty(%n, %m) : tensor<?x?xf32>
  %t = linalg.transpose ins(%s : tensor<?x?xf32>) outs(%g : tensor<?x?xf32>) permutation = [1, 0]
  return %t, %d : tensor<?x?xf32>, index
}

// -----

// Behind a reshape: the loops of the source are split like its result.

// CHECK-DAG: #[[$W:.*]] = affine_map<(d0, d1, d2, d3) -> (d3, d1, d2)>
// CHECK-DAG: #[[$OUT:.*]] = affine_map<(d0, d1, d2, d3) -> (d1, d0, d2)>
// CHECK-LABEL: func.func @split_source(
// CHECK:         linalg.fill {{.*}} -> tensor<4x5x16xf32>
// CHECK:         %[[V:.*]] = tensor.expand_shape %{{.*}} {{\[\[}}0], [1, 2]] output_shape [6, 4, 16]
// CHECK:         %[[R:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #[[$W]], #[[$OUT]]]
// CHECK:         return %[[R]] : tensor<4x5x16xf32>
func.func @split_source(%a: tensor<5x6xf32>, %w: tensor<6x64xf32>) -> tensor<4x5x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x64xf32>) -> tensor<5x64xf32>
  %s = linalg.matmul ins(%a, %w : tensor<5x6xf32>, tensor<6x64xf32>) outs(%f : tensor<5x64xf32>) -> tensor<5x64xf32>
  %h = tensor.expand_shape %s [[0], [1, 2]] output_shape [5, 4, 16] : tensor<5x64xf32> into tensor<5x4x16xf32>
  %g = tensor.empty() : tensor<4x5x16xf32>
  %t = linalg.transpose ins(%h : tensor<5x4x16xf32>) outs(%g : tensor<4x5x16xf32>) permutation = [1, 0, 2]
  return %t : tensor<4x5x16xf32>
}

// -----

// An accumulator that starts somewhere is permuted where it is computed.

// CHECK-LABEL: func.func @accumulator(
// CHECK:         %[[INIT:.*]] = linalg.generic {indexing_maps = [#{{.*}}, #{{.*}}], {{.*}} ins(%{{.*}} : tensor<4xf32>) outs(%{{.*}} : tensor<7x4xf32>)
// CHECK:         %[[R:.*]] = linalg.generic {{.*}} outs(%[[INIT]] : tensor<7x4xf32>)
// CHECK:         return %[[R]]
// PITFALL 17
func.func @accumulator(%a: tensor<4x5xf32>, %b: tensor<5x7xf32>, %bias: tensor<4xf32>) -> tensor<7x4xf32> {
  %e = tensor.empty() : tensor<4x7xf32>
  %i = linalg.broadcast ins(%bias : tensor<4xf32>) outs(%e : tensor<4x7xf32>) dimensions = [1]
  %s = linalg.matmul ins(%a, %b : tensor<4x5xf32>, tensor<5x7xf32>) outs(%i : tensor<4x7xf32>) -> tensor<4x7xf32>
  %g = tensor.empty() : tensor<7x4xf32>
  %t = linalg.transpose ins(%s : tensor<4x7xf32>) outs(%g : tensor<7x4xf32>) permutation = [1, 0]
  return %t : tensor<7x4xf32>
}

// -----

// Both pieces are written in order.

// CHECK-LABEL: func.func @concatenation(
// CHECK-COUNT-2: linalg.generic {{.*}} outs(%{{.*}} : tensor<3x4xf32>)
// CHECK:         tensor.concat dim(1) %{{.*}}, %{{.*}} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x8xf32>
func.func @concatenation(%a: tensor<4x3xf32>, %b: tensor<4x3xf32>) -> tensor<3x8xf32> {
  %n = arith.negf %a : tensor<4x3xf32>
  %m = math.absf %b : tensor<4x3xf32>
  %c = tensor.concat dim(0) %n, %m : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
  %e = tensor.empty() : tensor<3x8xf32>
  %t = linalg.transpose ins(%c : tensor<8x3xf32>) outs(%e : tensor<3x8xf32>) permutation = [1, 0]
  return %t : tensor<3x8xf32>
}

// -----

// Arithmetic on whole tensors, there and back.

// CHECK-DAG: #[[$SWAP:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-LABEL: func.func @there_and_back(
// CHECK-SAME:      %[[A:.*]]: tensor<4x5xf32>, %[[B:.*]]: tensor<5x4xf32>
// CHECK:         %[[S:.*]] = linalg.generic {indexing_maps = [#[[$SWAP]], #[[ID:.*]], #[[ID]]]{{.*}} ins(%[[A]], %[[B]] :
// CHECK:         arith.addf
// CHECK:         %[[R:.*]] = linalg.generic {{.*}} ins(%[[S]] : tensor<5x4xf32>) outs(%{{.*}} : tensor<4x5xf32>)
// CHECK:         return %[[R]]
func.func @there_and_back(%a: tensor<4x5xf32>, %b: tensor<5x4xf32>) -> tensor<4x5xf32> {
  %e = tensor.empty() : tensor<5x4xf32>
  %t = linalg.transpose ins(%a : tensor<4x5xf32>) outs(%e : tensor<5x4xf32>) permutation = [1, 0]
  %s = arith.addf %t, %b : tensor<5x4xf32>
  %f = tensor.empty() : tensor<4x5xf32>
  %u = linalg.transpose ins(%s : tensor<5x4xf32>) outs(%f : tensor<4x5xf32>) permutation = [1, 0]
  %g = tensor.empty() : tensor<4x5xf32>
  %r = linalg.exp ins(%u : tensor<4x5xf32>) outs(%g : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %r : tensor<4x5xf32>
}

// -----

// Transposes that undo each other, with a reshape between them and a second
// use of the first one's source.

// CHECK-LABEL: func.func @cancel(
// CHECK-SAME:      %[[A:.*]]: tensor<4x6x5xf32>
// CHECK:         %[[R:.*]] = tensor.collapse_shape %[[A]] {{\[\[}}0, 1], [2]]
// CHECK:         return %[[R]], %[[A]]
// REMARK: Function=cancel | Remark="no element changes its place"
func.func @cancel(%a: tensor<4x6x5xf32>) -> (tensor<24x5xf32>, tensor<4x6x5xf32>) {
  %e = tensor.empty() : tensor<5x4x6xf32>
  %t = linalg.transpose ins(%a : tensor<4x6x5xf32>) outs(%e : tensor<5x4x6xf32>) permutation = [2, 0, 1]
  %c = tensor.collapse_shape %t [[0], [1, 2]] : tensor<5x4x6xf32> into tensor<5x24xf32>
  %f = tensor.empty() : tensor<24x5xf32>
  %u = linalg.transpose ins(%c : tensor<5x24xf32>) outs(%f : tensor<24x5xf32>) permutation = [1, 0]
  return %u, %a : tensor<24x5xf32>, tensor<4x6x5xf32>
}

// -----

// One row: the heads only seem to move.

// CHECK-LABEL: func.func @unit_dims(
// CHECK-SAME:      %[[A:.*]]: tensor<1x1x4x8xf32>
// CHECK:         %[[C:.*]] = tensor.collapse_shape %[[A]] {{.*}} into tensor<4x8xf32>
// CHECK:         %[[R:.*]] = tensor.expand_shape %[[C]] {{.*}} into tensor<1x4x1x8xf32>
// CHECK:         return %[[R]]
// PITFALL 15
func.func @unit_dims(%a: tensor<1x1x4x8xf32>) -> tensor<1x4x1x8xf32> {
  %e = tensor.empty() : tensor<1x4x1x8xf32>
  %t = linalg.transpose ins(%a : tensor<1x1x4x8xf32>) outs(%e : tensor<1x4x1x8xf32>) permutation = [0, 2, 1, 3]
  return %t : tensor<1x4x1x8xf32>
}

// -----

// A slice of what is transposed, and the dim of it, in a loop.

// CHECK-LABEL: func.func @slice_in_loop(
// CHECK-SAME:      %[[A:.*]]: tensor<6x?xf32>
// CHECK:         tensor.dim %[[A]], %c1
// CHECK:         scf.for
// CHECK:           tensor.extract_slice %[[A]][0, 0] [6, 2] [1, 1]
// CHECK:           linalg.generic
func.func @slice_in_loop(%a: tensor<6x?xf32>, %acc: tensor<2x6xf32>, %n: index) -> (tensor<2x6xf32>, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %e = tensor.empty(%n) : tensor<?x6xf32>
  %t = linalg.transpose ins(%a : tensor<6x?xf32>) outs(%e : tensor<?x6xf32>) permutation = [1, 0]
  %d = tensor.dim %t, %c0 : tensor<?x6xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %acc) -> tensor<2x6xf32> {
    %s = tensor.extract_slice %t[0, 0] [2, 6] [1, 1] : tensor<?x6xf32> to tensor<2x6xf32>
    %y = linalg.add ins(%s, %x : tensor<2x6xf32>, tensor<2x6xf32>) outs(%x : tensor<2x6xf32>) -> tensor<2x6xf32>
    scf.yield %y : tensor<2x6xf32>
  }
  return %r, %d : tensor<2x6xf32>, index
}

// -----

// A copy that takes up a transpose becomes one, and is taken up in turn.

// CHECK-LABEL: func.func @copy(
// CHECK:         arith.addf
// CHECK:         -> tensor<6x4xf32>
// CHECK:         linalg.generic {{.*}} ins(%{{.*}} : tensor<6x4xf32>) outs(%{{.*}} : tensor<6x4xf32>)
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      linalg.yield
// CHECK-NEXT:    -> tensor<6x4xf32>
func.func @copy(%a: tensor<4x6xf32>, %b: tensor<4x6xf32>) -> tensor<6x4xf32> {
  %e = tensor.empty() : tensor<4x6xf32>
  %s = linalg.add ins(%a, %b : tensor<4x6xf32>, tensor<4x6xf32>) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
  %f = tensor.empty() : tensor<6x4xf32>
  %t = linalg.transpose ins(%s : tensor<4x6xf32>) outs(%f : tensor<6x4xf32>) permutation = [1, 0]
  %c = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%t : tensor<6x4xf32>) outs(%f : tensor<6x4xf32>) {
  ^bb0(%x: f32, %o: f32):
    linalg.yield %x : f32
  } -> tensor<6x4xf32>
  return %c : tensor<6x4xf32>
}

// -----

// Words of two elements: what computes them splits a dim further than the
// transpose does.

// CHECK-LABEL: func.func @packed(
// CHECK:         arith.shrui
// CHECK:         linalg.transpose
func.func @packed(%words: tensor<5x4xi8>) -> tensor<1x8x5xf32> {
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
