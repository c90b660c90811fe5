// What does not concern the pass stays as it is, dead ops and duplicate constants included; what cannot be lowered has
// one diagnostic.

// RUN: sed '/^\/\/ -----/,$d' %s > %t.mlir
// RUN: qtranspose-opt %t.mlir -o %t.before
// RUN: qtranspose-opt %t.mlir --qtranspose-decompose-aggregates -o %t.after
// RUN: diff %t.before %t.after
// RUN: qtranspose-opt %s --split-input-file --verify-diagnostics --qtranspose-decompose-aggregates > /dev/null

func.func @one_dynamic_size(%x: tensor<?x4xf32>, %m: index, %y: tensor<4x6xf32>) -> (tensor<?x2x4xf32>, tensor<2x3xf32>) {
  %dead = arith.constant 7 : i32
  %again = arith.constant 7 : i32
  %r = tensor.expand_shape %x [[0, 1], [2]] output_shape [%m, 2, 4] : tensor<?x4xf32> into tensor<?x2x4xf32>
  %s = tensor.extract_slice %y[0, 0] [2, 3] [2, 2] : tensor<4x6xf32> to tensor<2x3xf32>
  return %r, %s : tensor<?x2x4xf32>, tensor<2x3xf32>
}

// -----

// Upstream decomposes tensors only, and aborts on buffers.

// PITFALL 9
func.func @buffers(%x: memref<2x3xf32>, %o: memref<2x3xf32>) {
  // expected-error @+1 {{must be decomposed before it is bufferized}}
  linalg.softmax dimension(1) ins(%x : memref<2x3xf32>) outs(%o : memref<2x3xf32>)
  return
}

// -----

// Tiles of a size that is only known at run time.

func.func @dynamic_tile(%x: tensor<?x?xf32>, %t: index, %o: tensor<?x?x2x?xf32>, %p: f32) -> tensor<?x?x2x?xf32> {
  // expected-error @+1 {{cannot be decomposed for the CPU target}}
  %r = linalg.pack %x padding_value(%p : f32) inner_dims_pos = [0, 1] inner_tiles = [2, %t] into %o
      : tensor<?x?xf32> -> tensor<?x?x2x?xf32>
  return %r : tensor<?x?x2x?xf32>
}
